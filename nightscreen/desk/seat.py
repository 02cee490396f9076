"""What every page of the desk works with: settings, journal, users, audit, and a way to start runs.

Made once when the desk is served; nothing here belongs to one request.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

from nightscreen.desk.accounts import Accounts
from nightscreen.desk.cases import Cases
from nightscreen.desk.pages import compile_templates
from nightscreen.desk.run_rows import RunRowsCache
from nightscreen.desk.uploads import Uploads
from nightscreen.desk.work_list import WorkList
from nightscreen.journal.approvals import Approvals
from nightscreen.journal.audit import Audit
from nightscreen.journal.customers import Customers
from nightscreen.journal.reviews import Reviews
from nightscreen.policy.engine import locked_connection

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from duckdb import DuckDBPyConnection

    from nightscreen.config.parameters import ScreenBatch
    from nightscreen.config.settings import Settings
    from nightscreen.journal import Journal
    from nightscreen.schemas.approvals import Approval
    from nightscreen.schemas.clock import Clock


WRITE_WAIT_S: Final = 1.0
"""How long a write of a page waits where a run has the journal locked; then the page says so."""


class Starter(Protocol):
    """Starts and stops runs outside this process."""

    def start(self, parameters: ScreenBatch) -> None:
        """Start a run, or resume the one that the parameters name.

        Raises:
            UsageError: nothing can be started.
        """

    def resume(self, approval: Approval, parameters: ScreenBatch, *, waits_in_inbox: bool) -> None:
        """Resume an approved run by what started it; the watch resumes what waits in the inbox.

        Raises:
            UsageError: nothing can be resumed.
        """

    def stop(self, run_id: str, pid: int | None) -> None:
        """Ask a run to stop in good order.

        Raises:
            UsageError: it cannot be reached from here.
        """


@dataclass(slots=True)
class Seat:
    """The desk's own things.

    Attributes:
        journal: an open journal.
        settings: those of the product.
        starter: starts and stops runs.
        origins: addresses under which browsers reach the desk.
        output: where runs that are started here put their results.
    """

    journal: Journal
    settings: Settings
    starter: Starter
    origins: frozenset[str]
    output: Path
    accounts: Accounts = field(init=False)
    audit: Audit = field(init=False)
    customers: Customers = field(init=False)
    approvals: Approvals = field(init=False)
    uploads: Uploads = field(init=False)
    rows: RunRowsCache = field(default_factory=RunRowsCache)
    reviews: Reviews = field(init=False)
    cases: Cases = field(init=False)
    work: WorkList = field(init=False)
    clock: Clock = field(init=False)
    _engine: DuckDBPyConnection | None = None
    _one_at_a_time: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def __post_init__(self) -> None:
        self.clock = self.journal.clock
        self.accounts = Accounts(self.journal)
        self.audit = Audit(self.journal)
        self.customers = Customers.of(self.journal)
        self.reviews = Reviews.of(self.journal)
        self.approvals = Approvals.of(self.journal)
        self.uploads = Uploads(
            self.journal, self.settings, self.accounts, self.audit, self.approvals, self.output
        )
        self.cases = Cases(self.journal)
        self.work = WorkList(self.journal, self.rows, self.cases)

    @contextmanager
    def judging(self) -> Iterator[DuckDBPyConnection]:
        """Give the engine that finds which rules applied; opening one takes longer than asking."""
        with self._one_at_a_time:
            if self._engine is None:
                self._engine = locked_connection("256MB", optimizer=False)
            yield self._engine

    @property
    def is_secure(self) -> bool:
        """Tell whether browsers reach the desk by https alone."""
        return all(origin.startswith("https://") for origin in self.origins)

    def cookie(self, name: str) -> str:
        """Return a cookie's name; by https it is bound to this host."""
        return f"__Host-{name}" if self.is_secure else name

    def prepare(self) -> None:
        """Make what pages need and takes a second to make: templates, the list, the newest rows."""
        compile_templates()
        self.work.seen_by("")
        newest = max((run_id for _, run_id in self.work.newest), default="")
        run = self.journal.runs.find(newest)
        if run is not None:
            self.rows.of(run)

    def waiting_approvals(self) -> int:
        """Return how many runs wait for an approval."""
        return len(self.approvals.waiting())
