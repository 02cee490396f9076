"""The login of an engine of ours, and what its server and its clients are started with.

Whoever may use a Prefect server may run programs as its workers: none of ours answers without its
login. It is new at each start, is handed over in the environment alone, and is sent to that
server's own address only. Prefect is not loaded here.
"""

from __future__ import annotations

import os
import secrets
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

LOGIN = "PREFECT_API_AUTH_STRING"
SERVER_LOGIN = "PREFECT_SERVER_API_AUTH_STRING"
UMASK = 0o077
"""Of every server of ours: Prefect makes its database readable to all users of the machine."""


def new_login() -> str:
    """Return a login that nobody can guess."""
    return f"nightscreen:{secrets.token_urlsafe(32)}"


def server_environment(folder: Path, port: int, login: str, pages: str = "") -> dict[str, str]:
    """Return what a server is started with, beside the present environment.

    Args:
        folder: keeps its database and all else.
        port: where it listens on loopback.
        login: without which it answers nobody.
        pages: origins of its pages, divided by commas; none is this machine alone.
    """
    here = f"http://127.0.0.1:{port}"
    origins = pages or f"{here},http://localhost:{port}"
    return {
        "PREFECT_HOME": str(folder),
        "PREFECT_API_DATABASE_CONNECTION_URL": f"sqlite+aiosqlite:///{folder}/prefect.db",
        SERVER_LOGIN: login,
        "PREFECT_SERVER_CORS_ALLOWED_ORIGINS": origins,
        "PREFECT_SERVER_API_CORS_ALLOWED_ORIGINS": origins,  # its other name, which goes first
        "PREFECT_SERVER_UI_API_URL": f"{origins.split(',')[0]}/api",
    }


def client_environment(url: str, login: str) -> dict[str, str]:
    """Return what a client of a server of ours needs; no proxy hears the login."""
    past = os.environ.get("no_proxy") or os.environ.get("NO_PROXY") or ""
    own = url.removeprefix("http://").removesuffix("/api")
    direct = past if past == "*" or own in past.split(",") else f"{past},{own}".lstrip(",")
    return {"PREFECT_API_URL": url, LOGIN: login, "NO_PROXY": direct, "no_proxy": direct}


def without_login(environment: Mapping[str, str]) -> dict[str, str]:
    """Return an environment for what has no business with an engine."""
    return {name: value for name, value in environment.items() if name not in (LOGIN, SERVER_LOGIN)}
