"""A desk in a test: its application without a socket, browsers that keep cookies, a set clock."""

from __future__ import annotations

import asyncio
import shutil
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self
from urllib.parse import urlencode

import httpx
from argon2 import PasswordHasher

from nightscreen.config.parameters import ScreenBatch
from nightscreen.config.settings import read_settings
from nightscreen.desk.app import application
from nightscreen.desk.context import Context
from nightscreen.journal import open_journal
from nightscreen.journal.database import BUSY_TIMEOUT_S
from nightscreen.journal.runs import RunRecord
from nightscreen.schemas.approvals import Approval
from nightscreen.schemas.contests import Review
from nightscreen.schemas.errors import UsageError
from nightscreen.schemas.users import Role, User
from nightscreen.web.guard import FORM_TYPE
from tests.portal.visiting import Clock
from tests.screening import AskingApproval, World

ORIGIN = "http://127.0.0.1:8090"
PASSWORD = "palm wine at noon"
USUAL: Final = {"base_url": "http://127.0.0.1:1", "api_key": "sandbox-key"}
QUICK = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
"""Hashes as the desk does, without the half second of work that is to cost whoever tries many."""


class _Loop(threading.local):
    """A loop for each thread that stays: one for each request, with its threads, costs as much."""

    def __init__(self) -> None:
        self.runner = asyncio.Runner()


_loop = _Loop()


@dataclass
class Starts:
    """Notes what would be started."""

    started: list[ScreenBatch] = field(default_factory=list)
    stopped: list[str] = field(default_factory=list)

    def start(self, parameters: ScreenBatch) -> None:
        """Note a run."""
        self.started.append(parameters)

    def resume(self, _run: RunRecord, _approval: Approval, given: Mapping[str, str]) -> None:
        """Note a run that is resumed."""
        self.start(ScreenBatch.model_validate(given))

    def stop(self, run_id: str, pid: int | None) -> None:
        if pid is None:
            raise UsageError("no process")
        self.stopped.append(run_id)


@dataclass
class Office:
    """One desk over one HOME, and as many browsers as wanted."""

    folder: Path
    clock: Clock = field(default_factory=Clock)
    changes: dict[str, Any] = field(default_factory=dict)
    origin: str = ORIGIN
    busy_timeout_s: float = BUSY_TIMEOUT_S

    def __post_init__(self) -> None:
        home = self.folder / "home"
        self.settings = read_settings(_env_file=None, home=home, **USUAL | self.changes)
        self.journal = open_journal(
            self.folder / "home",
            url=self.settings.journal_url,
            data_key=self.settings.data_key.get_secret_value(),
            clock=self.clock,
            busy_timeout_s=self.busy_timeout_s,
        )
        self.starts = Starts()
        out = self.folder / "out"
        self.context = Context(
            self.journal, self.settings, self.starts, frozenset({self.origin}), out
        )
        self.context.accounts._hasher = QUICK
        self.app = application(self.context)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.journal.close()

    def browser(self, *roles: str, name: str = "") -> Browser:
        """Return the browser of somebody who is signed in; of nobody where no role is given.

        Rights that sleep at first were confirmed already.
        """
        browser = Browser(self)
        if roles:
            name = name or "-".join(roles)
            accounts = self.context.accounts
            token = accounts.add(name, [Role(role) for role in roles])
            user = accounts.use_link(token, name, PASSWORD)
            for each in accounts.users():
                accounts.set(each.name, asleep_until=0, alone_at=None)
            user = accounts.set(name, alone_at=None)
            browser.cookies["nightscreen-desk"] = accounts.sign_in(user)
        return browser

    def user(self, name: str) -> User:
        """Return a user who is there, as the accounts have it now."""
        user = self.context.accounts.find(name)
        assert user is not None, f"nobody is called {name}"
        return user

    def reviews(self, customer_id: str) -> list[Review]:
        """Return the reviews of a customer of the portfolio, oldest first."""
        key = self.journal.pseudonyms.customer("portfolio", customer_id)
        return self.context.reviews.of_customer(key)

    @property
    def night(self) -> RunRecord:
        """Return the last run of the portfolio."""
        return self.journal.runs.newest(batch="portfolio", limit=1)[0]

    @property
    def waiting(self) -> str:
        """Return the run that waits for approval."""
        (approval,) = self.context.approvals.waiting()
        return approval.run_id

    def await_approval(
        self,
        by: str,
        rows: Sequence[Mapping[str, str]] | None = None,
        **options: Any,  # noqa: ANN401 - parameters of a run
    ) -> None:
        """Have a run wait for its approval, as asked for by somebody."""
        world = World(self.folder, settings={"approval_above": "0"}, clock=self.clock)
        runner = AskingApproval()
        runner.by = by
        world.screen_by(runner, rows, **options)

    def actions(self) -> list[str]:
        """Return what the audit says was done, oldest first."""
        return [each["action"] for each in reversed(self.context.audit.find())]


@contextmanager
def office_over(night: Path, folder: Path) -> Iterator[Office]:
    """Give a desk in a folder over a copy of a night's journal; the runs' folders are shared."""
    shutil.copytree(night / "home", folder / "home")
    with Office(folder) as office:
        yield office


@dataclass
class Browser:
    """One browser; follows nothing by itself."""

    office: Office
    cookies: dict[str, str] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    address: str = "127.0.0.1"

    def ask(self, method: str, path: str, **more: Any) -> httpx.Response:  # noqa: ANN401 - as httpx
        """Send one request and keep the cookies that come back."""

        async def send() -> httpx.Response:
            transport = httpx.ASGITransport(
                self.office.app, raise_app_exceptions=False, client=(self.address, 1)
            )
            async with httpx.AsyncClient(
                transport=transport, base_url=ORIGIN, headers=self.headers
            ) as client:
                words = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
                headers = {"cookie": words, **more.pop("headers", {})}
                answer = await client.request(method, path, headers=headers, **more)
                self.cookies |= dict(answer.cookies)
                shown = answer.text if "html" in answer.headers.get("content-type", "") else ""
                assert "&lt;Macro " not in shown, "a template shows a macro, not what it makes"
                return answer

        return _loop.runner.run(send())

    def get(self, path: str) -> httpx.Response:
        """Open a page."""
        return self.ask("GET", path)

    def post(self, path: str, **fields: Any) -> httpx.Response:  # noqa: ANN401 - words or lists
        """Send a form, as a browser does from a page of the desk."""
        headers = {"sec-fetch-site": "same-origin", "content-type": FORM_TYPE}
        return self.ask("POST", path, content=urlencode(fields, doseq=True), headers=headers)
