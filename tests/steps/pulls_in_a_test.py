"""Pulls in a test: the line below the flow, against a sandbox in the same process.

No socket, no engine, no browser: customers consent at the sandbox's grants, and the client's
requests reach its application through httpx's own transport.
"""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import httpx
import pyarrow.parquet as pq

from nightscreen.calling.caller import open_caller
from nightscreen.config.settings import Retention, read_settings
from nightscreen.journal import open_journal
from nightscreen.journal.consents import Consents
from nightscreen.journal.customers import Customers
from nightscreen.operations.transactions.report import close_pull
from nightscreen.operations.transactions.sync import (
    TransactionSync,
    begin_pull,
    open_pull_run,
    pull_shard,
)
from nightscreen.operations.transactions.transaction_files import Transactions
from nightscreen.privacy.lookup_subject import Subject
from nightscreen.privacy.subject_access import gather
from nightscreen.sandbox.app import application
from nightscreen.sandbox.faults import NO_WAIT
from nightscreen.sandbox.state import Opening, Sandbox
from nightscreen.schemas.clock import system_clock
from nightscreen.schemas.consented import PULLS, TokenAnswer
from nightscreen.schemas.pulls import PullAccounts, PullOutcome, PullTransactions
from nightscreen.schemas.stops import StopReason

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from nightscreen.journal import Journal
    from nightscreen.operations.transactions.transaction_files import Version
    from nightscreen.schemas.clock import Clock
    from nightscreen.schemas.consented import Grant

LIST = "transaction:list"
CALLBACK = "https://lender.example/callback"


def quick_sandbox(**opening: Any) -> Sandbox:  # noqa: ANN401 - as Opening has them
    """Return a sandbox that answers at once."""
    sandbox = Sandbox(Opening(**opening))
    sandbox.latency.default = NO_WAIT
    return sandbox


@dataclass
class Lender:
    """A sandbox, a HOME and an output folder that several pulls share.

    Customers sign in at the service under the name `<customer_id>@bank.example`, magic ones under
    their own.
    """

    folder: Path
    sandbox: Sandbox = field(default_factory=quick_sandbox)
    settings: dict[str, Any] = field(default_factory=dict)
    clock: Clock = system_clock

    @contextmanager
    def consents(self) -> Iterator[Consents]:
        """Open the journal's consents."""
        with open_journal(self.folder / "home", url=self.journal_url, clock=self.clock) as journal:
            yield Consents.of(journal)

    @property
    def journal_url(self) -> str:
        """Where the journal lies; empty for SQLite under HOME."""
        return str(self.settings.get("journal_url", ""))

    def consent(self, customers: Iterable[str], *scopes: str) -> list[Grant]:
        """Let customers consent, and keep what comes of it."""
        with self.consents() as consents:
            return [self._consent(consents, each, scopes or (LIST,)) for each in customers]

    def _consent(self, consents: Consents, customer: str, scopes: tuple[str, ...]) -> Grant:
        box = self.sandbox
        code = box.grants.allow(
            username(customer),
            scopes,
            client_id=box.client.client_id,
            redirect_uri=CALLBACK,
            now=box.now(),
        )
        grant, access = box.grants.exchange(
            code, CALLBACK, client_id=box.client.client_id, now=box.now()
        )
        token = TokenAnswer(
            access_token=access.token,
            username=grant.customer,
            refresh_token=grant.refresh_token,
            scope=" ".join(grant.scopes),
        )
        evidence = {"channel": "test", "redirect_uri": CALLBACK}
        return consents.keep(customer, token, asked_scopes=scopes, evidence=evidence)

    def open(
        self,
        model: type[PullTransactions] = PullTransactions,
        **options: Any,  # noqa: ANN401 - as PullTransactions has them
    ) -> TransactionSync:
        """Open a pull."""
        settings = read_settings(
            **{
                "base_url": "http://127.0.0.1:1",
                "api_key": "sandbox-key",
                "home": self.folder / "home",
                "tolerated_failure_pct": 100,
                **self.settings,
            }
        )
        parameters = model(output=str(self.folder / "out"), **options)
        return begin_pull(open_pull_run(parameters, settings, clock=self.clock))

    def pull(self, **options: Any) -> dict[str, Any]:  # noqa: ANN401
        """Pull and return the report."""
        return self._run(self.open(**options))

    def pull_accounts(self, **options: Any) -> dict[str, Any]:  # noqa: ANN401
        """Pull linked accounts and return the report."""
        return self._run(self.open(PullAccounts, **options))

    def _run(self, pull: TransactionSync) -> dict[str, Any]:
        try:
            asyncio.run(self.ask(pull))
            return close_pull(pull)
        finally:
            pull.run.close()

    async def ask(self, pull: TransactionSync, *, until: int | None = None) -> None:
        """Pull every shard; send nothing more once so many customers are done."""
        session = open_caller(pull.run, transport=httpx.ASGITransport(application(self.sandbox)))
        if until is not None:
            pull.settled = _Until(pull, until)
        try:
            async with asyncio.TaskGroup() as group:
                for number in range(len(pull.due)):
                    group.create_task(_shard(pull, session, number))
        finally:
            await session.close()

    def kept(self, customer: str) -> list[list[Version]]:
        """Return every version that is kept of a customer's records."""
        with self.consents() as consents:
            store = Transactions.of(consents.journal)
            return list(store.of_customer(consents.customer(customer)))

    def typed(self, run_id: str = "*", folder: str = "transactions") -> list[dict[str, Any]]:
        """Return the typed records of a run, or of all runs in their order."""
        paths = sorted((self.folder / "out" / folder).glob(f"*/{run_id}.parquet"))
        return [row for path in paths for row in pq.read_table(path).to_pylist()]

    def changes(self, run_id: str) -> list[dict[str, Any]]:
        """Return what a run told."""
        path = self.folder / "out" / run_id / "changes.parquet"
        return list(pq.read_table(path).to_pylist())

    def count(self, customer: str, what: str) -> int:
        """Return what the sandbox counted about a customer."""
        counted = self.sandbox.grants.counts.get(username(customer))
        return 0 if counted is None else counted[what]


class _Until(dict[bytes, PullOutcome]):
    """Stops a pull once so many customers are done."""

    def __init__(self, pull: TransactionSync, until: int) -> None:
        super().__init__()
        self._pull = pull
        self._until = until

    def __setitem__(self, customer: bytes, outcome: PullOutcome) -> None:
        super().__setitem__(customer, outcome)
        if len(self) >= self._until:
            self._pull.run.stops.stop(StopReason.CANCELLED)


async def _shard(pull: TransactionSync, session: Any, number: int) -> None:  # noqa: ANN401 - a session
    await pull_shard(pull, session, number)


def held_of(journal: Journal, customer: str) -> dict[str, Any]:
    """Return what subject access shows of a customer."""
    person = Subject(customer, PULLS, journal.pseudonyms.customer(PULLS, customer), ())
    return gather(journal, Customers.of(journal), [person], Retention())


def username(customer: str) -> str:
    """Return the name under which a customer signs in at the service."""
    return customer if "@" in customer else f"{customer}@bank.example"
