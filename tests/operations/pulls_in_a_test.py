"""Pulls in a test, without Prefect, against a sandbox in the same process.

There are no sockets and no browser: customers consent directly in the sandbox's grants, and the
client's requests reach its application through httpx's own transport.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pyarrow.parquet as pq

from nightscreen.calling.caller import Caller
from nightscreen.config.settings import Retention, Settings, read_settings
from nightscreen.files.outputs import CASHFLOW_FILE
from nightscreen.journal import Journal, open_journal
from nightscreen.journal.consents import Consents
from nightscreen.operations.pull import (
    AccountPull,
    Pull,
    PulledCustomer,
    TransactionPull,
)
from nightscreen.operations.pulled_records import PullStore, Version
from nightscreen.privacy.lookup_subject import Subject
from nightscreen.privacy.subject_access import gather
from nightscreen.sandbox.process import SandboxProcess
from nightscreen.sandbox.state import Sandbox
from nightscreen.schemas.consented import PULLS, Grant, PullTransactions, TokenAnswer
from nightscreen.schemas.enriched import CASHFLOW_SCHEMA
from nightscreen.schemas.errors import InputError
from nightscreen.schemas.stops import StopReason
from tests.sandbox.in_process import quick_sandbox
from tests.screening import World

LIST = "transaction:list"
CALLBACK = "https://lender.example/callback"


@dataclass
class Lender(World):
    """A sandbox, a HOME and an output folder for several pulls.

    Customers sign in to the service as `<customer_id>@bank.example`, magic customers under their
    own names.
    """

    sandbox: Sandbox = field(default_factory=quick_sandbox)

    def read_settings(self) -> Settings:
        defaults = {
            "base_url": "http://127.0.0.1:1",
            "api_key": "sandbox-key",
            "home": self.folder / "home",
            "tolerated_failure_pct": 100,
        }
        return read_settings(**{**defaults, **self.settings})

    def opened(self) -> Journal:
        return open_journal(self.folder / "home", clock=self.clock)

    @contextmanager
    def consents(self) -> Iterator[Consents]:
        with self.opened() as journal:
            yield Consents(journal)

    def expire_tokens(self) -> None:
        for grant in self.sandbox.grants.of(None):
            grant.expire(self.sandbox.now())

    def consent(self, customers: Iterable[str], *scopes: str) -> list[Grant]:
        with self.consents() as consents:
            return [self._consent(consents, each, scopes or (LIST,)) for each in customers]

    def _consent(self, consents: Consents, customer: str, scopes: tuple[str, ...]) -> Grant:
        box = self.sandbox
        code = box.grants.allow(username(customer), scopes, CALLBACK, box.now())
        grant, access = box.grants.exchange(code, CALLBACK, box.now())
        assert grant, access
        token = TokenAnswer(
            access_token=access,
            username=grant.customer,
            refresh_token=grant.refresh_token,
            scope=" ".join(grant.scopes),
        )
        evidence = {"channel": "test", "redirect_uri": CALLBACK}
        return consents.keep(customer, token, asked_scopes=scopes, evidence=evidence)

    def open(
        self,
        kind: type[Pull] = TransactionPull,
        **options: Any,  # noqa: ANN401 - as PullTransactions has them
    ) -> Pull:
        parameters = PullTransactions(output=self.out, **options)
        pull = kind.open(parameters, self.read_settings(), clock=self.clock)
        try:
            pull.plan_calls()
        except InputError:
            pull.run.close()
            raise
        return pull

    def pull(
        self,
        kind: type[Pull] = TransactionPull,
        **options: Any,  # noqa: ANN401 - as PullTransactions has them
    ) -> dict[str, Any]:
        parameters = PullTransactions(output=self.out, **options)
        return self.run_persons(kind, parameters)

    def pull_accounts(self) -> dict[str, Any]:
        return self.pull(AccountPull)

    async def ask(self, pull: Pull, *, until: int = 10**9) -> None:
        """Pull every customer; stop the run once `until` customers are saved."""
        session = Caller(run=pull.run, transport=self.transport())
        save_result, done = pull.save_result, []

        def stopping(person: PulledCustomer) -> None:
            save_result(person)
            done.append(person)
            if len(done) >= until:
                pull.run.stops.stop(StopReason.CANCELLED)

        pull.save_result = stopping  # type: ignore[method-assign]
        try:
            await pull.ask(session)
        finally:
            await session.close()

    def kept(self, customer: str) -> list[Version]:
        with self.opened() as journal:
            return list(PullStore(journal).of_customer(Consents(journal).customer(customer)))

    def typed(self, run_id: str = "*", folder: str = "transactions") -> list[dict[str, Any]]:
        """Return the typed records of a run, or of all runs in order."""
        paths = sorted((self.folder / "out" / folder).glob(f"*/{run_id}.parquet"))
        return [row for path in paths for row in pq.read_table(path).to_pylist()]

    def changes(self, run_id: str) -> list[dict[str, Any]]:
        path = self.folder / "out" / run_id / "changes.parquet"
        return list(pq.read_table(path).to_pylist())

    def figures(self, run_id: str) -> dict[str, dict[str, Any]]:
        """Return a pull's figures of cash flow by customer."""
        table = pq.read_table(self.folder / "out" / run_id / CASHFLOW_FILE)
        assert table.schema.equals(CASHFLOW_SCHEMA)
        return {row["customer_id"]: row for row in table.to_pylist()}

    def count(self, customer: str, what: str) -> int:
        counted = self.sandbox.grants.counts.get(username(customer))
        return 0 if counted is None else counted[what]


def held_of(journal: Journal, customer: str) -> dict[str, Any]:
    """Return what subject access shows about a customer."""
    person = Subject(customer, PULLS, journal.pseudonyms.customer(PULLS, customer), ())
    return gather(journal, [person], Retention())


def consent_at(box: SandboxProcess, journal: Journal, customers: Iterable[str]) -> None:
    """Let customers consent at a sandbox process, under their ids, and save their grants."""
    key = {"Authorization": f"Bearer {box.api_key}"}
    for customer in customers:
        asked = {"customer": customer, "scopes": [LIST], "redirect_uri": CALLBACK}
        code = box.post("/_sandbox/grants", asked)["code"]
        body = {"code": code, "grant_type": "authorization_code", "redirect_uri": CALLBACK}
        answer = box.request("POST", "/v2/aggregator/auth", body, key).raise_for_status()
        token = TokenAnswer.read(answer.json())
        evidence = {"redirect_uri": CALLBACK}
        Consents(journal).keep(customer, token, asked_scopes=[LIST], evidence=evidence)


def username(customer: str) -> str:
    """Return the name with which a customer signs in to the service."""
    return customer if "@" in customer else f"{customer}@bank.example"
