"""A real portal over a real sandbox, for journeys as customers make them in a real browser."""

from __future__ import annotations

import subprocess
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from nightscreen.journal import open_journal
from nightscreen.journal.consents import Consents
from nightscreen.operations.consents.links import ConsentLinks
from nightscreen.schemas.consented import GrantState
from tests.cli.command import COMMAND, nightscreen, surroundings
from tests.services import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nightscreen.sandbox.process import SandboxProcess


@dataclass(frozen=True)
class Served:
    """A portal that listens, and how commands reach its journal."""

    origin: str
    folder: Path
    env: dict[str, str]
    log: Path

    def link(self, customer: str, *scopes: str, more: tuple[str, ...] = ()) -> str:
        """Make a link with the command."""
        asked = [word for scope in scopes or ("transaction:list",) for word in ("--scope", scope)]
        ended = nightscreen(
            "consent", "link", customer, *asked, *more, "--json", cwd=self.folder, env=self.env
        )
        assert ended.status == 0, ended.err
        return str(ended.document["link"])

    def quick_link(self, customer: str, *scopes: str) -> str:
        """Make a link without the command, which takes a moment to start."""
        with open_journal(self.folder / "home") as journal:
            wanted = scopes or ("transaction:list",)
            made = ConsentLinks(journal).make(customer, wanted, timedelta(days=1))
        return f"{self.origin}/consent/{made.token}"

    def granted(self, customer: str) -> list[tuple[str, ...]]:
        """Return the scopes of each live grant of a customer."""
        with open_journal(self.folder / "home") as journal:
            live = Consents.of(journal).grants(GrantState.LIVE)
            return [each.scopes for each in live if each.customer_id == customer]


@contextmanager
def served(folder: Path, sandbox: SandboxProcess) -> Iterator[Served]:
    """Run `nightscreen portal` as a user does, and stop it in good order."""
    port = free_port()
    origin = f"http://127.0.0.1:{port}"
    env = surroundings(
        folder,
        NIGHTSCREEN_BASE_URL=sandbox.url,
        NIGHTSCREEN_API_KEY=sandbox.api_key,
        NIGHTSCREEN_CONSENT_URL=sandbox.url,
        NIGHTSCREEN_CLIENT_ID="sandbox-client",
        NIGHTSCREEN_REDIRECT_URI=f"{origin}/back/from-consent",
        NIGHTSCREEN_PORTAL_NAME="Palmwine Credit",
        NIGHTSCREEN_PORTAL_CONTACT="help@palmwine.example",
        NIGHTSCREEN_HOME=str(folder / "home"),
        PYTHONPATH=str(Path(__file__).parents[2]),
    )
    log = folder / "nightscreen.portal.log"
    with log.open("wb") as stderr:
        child = subprocess.Popen(
            [COMMAND, "portal"], cwd=folder, env=env, stdout=subprocess.PIPE, stderr=stderr
        )
    try:
        assert child.stdout is not None
        line = child.stdout.readline().decode()
        assert line == f"portal listening on {origin} for {origin}\n", log.read_text()
        yield Served(origin, folder, env, log)
    finally:
        child.terminate()
        status = child.wait(20)
        if child.stdout is not None:
            child.stdout.close()
    assert status == 0
