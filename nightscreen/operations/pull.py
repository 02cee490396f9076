"""Pulls: runs that fetch the data which customers consented to share.

A pull fetches transactions, or linked accounts and, if granted, the profile. An access token is
used until the service refuses it; then one task of one process refreshes it once, and the call is
repeated once. Files, notices and report are made from the journal alone, so that the report of a
stopped or killed pull is complete, too. `pulled_records` compares a list with the last one;
`operations/person_run.py` drives the run.
"""

from __future__ import annotations

import asyncio
from asyncio import to_thread
from collections import Counter
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar, Final

import pyarrow as pa

from nightscreen.calling.stops import TOLERATED_FROM
from nightscreen.client import wire
from nightscreen.client.response_parser import parse_answer
from nightscreen.client.response_rules import FailureReason
from nightscreen.files.outputs import CHANGES_FILE, QUARANTINE
from nightscreen.files.private_files import make_private_folder
from nightscreen.files.quarantine import csv_file
from nightscreen.files.run_folder import RunFolder
from nightscreen.journal.consents import Consents
from nightscreen.operations.cashflow import CashFlow, write_cash_flow
from nightscreen.operations.person_run import (
    FAILED,
    PENDING,
    Person,
    PersonRun,
    ReportParts,
    write_rows,
)
from nightscreen.operations.pulled_records import (
    HINTS,
    AnsweredList,
    Drift,
    PullStore,
    load_fields,
    read_list,
)
from nightscreen.schemas.calls import CallState, LookupStatus
from nightscreen.schemas.checks import Operation, SubjectKind
from nightscreen.schemas.clock import DAY_MICROS, lagos_day, to_instant
from nightscreen.schemas.consented import (
    FINAL,
    KEPT,
    PULLS,
    UNCHANGED,
    Grant,
    GrantState,
    Pulled,
    PulledKind,
    PullOutcome,
    PullTransactions,
    Tokens,
    TransactionChange,
)
from nightscreen.schemas.decisions import QUARANTINE_COLUMNS
from nightscreen.schemas.errors import InputError, UsageError
from nightscreen.schemas.rows import INSTANT
from nightscreen.schemas.stops import TEST_MODE, StopReason

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from nightscreen.calling.caller import Caller
    from nightscreen.calling.lookup_task import LookupTask
    from nightscreen.calling.run import Run
    from nightscreen.config.settings import Settings
    from nightscreen.operations.pulled_records import Version
    from nightscreen.schemas.requests import Request

CHANGES_SCHEMA = pa.schema(
    [
        pa.field("customer", pa.string(), nullable=False),
        pa.field("record_key", pa.string()),
        pa.field("change", pa.dictionary(pa.int32(), pa.string()), nullable=False),
        pa.field("readable", pa.bool_()),
        pa.field("changed_at", INSTANT, nullable=False),
        pa.field("records", pa.int32()),
    ]
)
"""One row for each record added, modified or removed, by pseudonyms; and one for each customer
whose list was suspiciously short, with the number of unconfirmed removals."""
_QUARANTINED = ("customer_id", "record_key", *QUARANTINE_COLUMNS)
NOTICES = {
    "lapsed": "consents lapsed, since the service does not renew them any more: ask these "
    "customers again; see: nightscreen consent list",
    "short": "customers' lists are suspicious: they lack much of what was there; nothing is "
    "reported as removed until the next pull confirms it",
    "profile lost": "customers' profiles were not answered; their accounts are kept, and the next "
    "pull asks again",
    "refused": "refreshes were refused and no other call under this key was answered: check "
    "NIGHTSCREEN_API_KEY, then resume the run; no consent was given up",
}
"""Notices of the report; each is preceded by the number of customers."""
_COUNTS = (*(each.value for each in TransactionChange), "held", "out_of_reach")

OPERATION_OF: Final = {
    PulledKind.TRANSACTION: Operation.AGGREGATOR_TRANSACTIONS,
    PulledKind.BANK_ACCOUNT: Operation.AGGREGATOR_ACCOUNTS,
    PulledKind.PROFILE: Operation.AGGREGATOR_PROFILE,
}
REFUSED = "the service refused to renew the access"
"""Why a grant lapsed, as `consent list` shows it."""
_LEASE_POLL_S = 0.2  # how often to check whether another task has refreshed the token
_WITH_API_KEY = (Operation.AGGREGATOR_REFRESH.value, Operation.AGGREGATOR_EXCHANGE.value)
_ANSWERED = frozenset({LookupStatus.PAID, LookupStatus.FREE})
_LOST = {
    LookupStatus.FAILED: PullOutcome.FAILED,
    LookupStatus.IN_DOUBT: PullOutcome.IN_DOUBT,
}
_FAILURES = frozenset(outcome.value for outcome in _LOST.values())


@dataclass(slots=True, kw_only=True)
class PulledCustomer(Person):
    """A customer whose data is pulled."""

    record: Pulled
    grant: Grant | None = None  # the grant that is used, once it is their turn
    # the body of each list, or why there is none
    answers: dict[PulledKind, bytes | PullOutcome] = field(default_factory=dict)


class Pull(PersonRun[PullTransactions, PulledCustomer]):
    """A pull in progress."""

    form = PullTransactions
    kind: ClassVar[SubjectKind] = SubjectKind.CUSTOMER
    # what is pulled: customers who granted the first kind are due; the others are optional
    kinds: ClassVar[tuple[PulledKind, ...]]
    re_entered: ClassVar[bool] = True

    def __init__(self, run: Run, parameters: PullTransactions) -> None:
        super().__init__(run, parameters)
        self.consents = Consents(run.journal)
        self.store = PullStore(run.journal)
        self.fields = {kind: load_fields(kind) for kind in self.kinds}
        # a refused token is not a failure of the service: `_stop_on_failures` decides instead
        run.stops.tolerated_failure_pct = 100.0

    @classmethod
    def identify(cls, parameters: PullTransactions, settings: Settings) -> tuple[str, str]:  # noqa: ARG003 - no input
        """Return the batch name of pulls, once the lender's own tables are known to be valid.

        Raises:
            SettingsError: the table of narrations or of features has a mistake.
        """
        CashFlow.of(settings)
        return PULLS, ""

    def load_people(self) -> list[PulledCustomer]:
        """Save the customers who are due, or load those of the run that is resumed.

        A quote saves nothing.

        Raises:
            InputError: a named grant is not live.
        """
        due = self.store.pulls.of_run(self.run.run_id)
        own = self.run.journal.runs.find(self.run.run_id)
        # a new run, or one whose process died before it saved them
        if not due and (own is None or own.report is None):
            due = [
                Pulled(
                    key=f"{self.run.run_id} {grant.customer.hex()}",
                    customer=grant.customer,
                    run_id=self.run.run_id,
                    at=self.run.clock(),
                    grant_id=grant.grant_id,
                    pulled=self.kinds[0],
                )
                for grant in self._chosen()
            ]
            if not self.run.only_quotes:
                self.store.pulls.add(due)
        self.rows_read = len(due)
        return [
            PulledCustomer(
                subject=each.customer,
                state=each.state.value if each.state in FINAL else PENDING,
                record=each,
            )
            for each in due
        ]

    def _chosen(self) -> list[Grant]:
        """Return the live grants with the scope, or those that the parameters name."""
        scope, named = scope_of(self.kinds[0]), self.parameters.grants
        live = {each.grant_id: each for each in self.consents.grants(GrantState.LIVE, scope)}
        missing = next((each for each in named if each not in live), None)
        if missing is not None:
            raise InputError(
                f"there is no live grant {missing} with the scope {scope}; see: nightscreen "
                "consent list, and ask for consent with: nightscreen consent link"
            )
        return [live[each] for each in dict.fromkeys(named)] if named else list(live.values())

    # --- one customer's turn ---

    async def ask_person(self, caller: Caller, person: PulledCustomer) -> bool:
        """Fetch each granted list, and save the answers.

        The grant that is live now counts: there may be a newer one than planned, or none.
        """
        main_scope = scope_of(self.kinds[0])
        person.grant = await to_thread(self.consents.live, person.subject, main_scope)
        person.answers = {} if person.grant else {self.kinds[0]: PullOutcome.ENDED}
        for kind in self.kinds:
            if person.grant is None or not person.grant.allows(scope_of(kind)):
                continue
            if kind is not self.kinds[0]:
                self.run.progress[self.operation].wanted += 1
            answer = await self._fetch(caller, person, person.grant, kind)
            if answer is not None:
                person.answers[kind] = answer
            if not isinstance(answer, bytes):
                break
        if person.answers:
            await to_thread(self.save_result, person)
        if person.state in _FAILURES:
            self._stop_on_failures()
        return True

    async def _fetch(
        self, caller: Caller, person: PulledCustomer, first_grant: Grant, kind: PulledKind
    ) -> bytes | PullOutcome | None:
        """Return the body of a list, or why there is none; None if the run stopped.

        If the token is refused, refresh it and repeat the call once.
        """
        grant = first_grant
        while True:
            request = list_request(grant, kind, self.run.settings.aggregator_path)
            task = await self._call(caller, grant, request)
            if kind is self.kinds[0]:
                person.task = task
            trouble = None if task.reading is None else task.reading.trouble
            if task.status not in _LOST or trouble is not FailureReason.TOKEN:
                break
            if grant is not first_grant:
                return PullOutcome.TOKEN_REFUSED
            tokens = await self._newer_tokens(caller, grant)
            if not isinstance(tokens, Tokens):
                return tokens
            person.grant = grant = grant.model_copy(update={"tokens": tokens})
        if task.status in _ANSWERED and task.reading is not None:
            body, task.reading = task.reading.body, None
            return body
        return _LOST.get(task.status)

    async def _call(self, caller: Caller, grant: Grant, request: Request) -> LookupTask:
        """Make a call under the customer's consent; the journal stores no body of it."""
        task = caller.task(
            request,
            kind=self.kind,
            subject=grant.customer,
            keeps_body=False,
            consent_reference=grant.grant_id,
        )
        return await caller.make_call(task)

    async def _newer_tokens(self, caller: Caller, grant: Grant) -> Tokens | PullOutcome | None:
        """Return newer tokens, refreshed here unless another task does; None if the run stopped."""
        grant_id, used = grant.grant_id, grant.tokens
        while self.run.stops.reason is None:
            lease = await to_thread(self.consents.take_lease, grant_id)
            try:
                current = await to_thread(self.consents.find, grant_id)
                if current is None or current.tokens is None:
                    return PullOutcome.ENDED
                if used is None or current.tokens.generation != used.generation:
                    return current.tokens
                if lease is not None:
                    return await self._refresh(caller, current, current.tokens)
            finally:
                if lease is not None:
                    await to_thread(self.consents.give_back, grant_id, lease)
            if not caller.record_wait("an access that another task or process renews"):
                return None
            await asyncio.sleep(_LEASE_POLL_S)
        return None

    async def _refresh(
        self, caller: Caller, grant: Grant, tokens: Tokens
    ) -> Tokens | PullOutcome | None:
        """Refresh the access token with one call (specification, access token lifecycle)."""
        if not tokens.refresh_token:
            return PullOutcome.TOKEN_REFUSED
        self.run.progress[self.operation].wanted += 2
        redirect_uri = str(grant.evidence.get("redirect_uri") or self.run.settings.redirect_uri)
        request = wire.refresh(tokens.refresh_token, redirect_uri)
        task = await self._call(caller, grant, request)
        reading = task.reading
        if task.status is LookupStatus.WAITING:
            return None
        if task.status is LookupStatus.IN_DOUBT:
            return PullOutcome.IN_DOUBT
        if task.status is LookupStatus.FAILED:
            refused = reading is not None and reading.trouble is FailureReason.GRANT
            return PullOutcome.REFRESH_REFUSED if refused else PullOutcome.FAILED
        body = b"" if reading is None else reading.body
        answer = parse_answer(Operation.AGGREGATOR_REFRESH, body)
        if answer is None:
            return PullOutcome.FAILED
        return await to_thread(self.consents.refreshed, grant.grant_id, answer) or PullOutcome.ENDED

    # --- saving answers ---

    def save_result(self, person: PulledCustomer) -> None:
        """Read a customer's answers, compare them with the stored records, and save the changes.

        If only an optional list failed, the main list is saved, and the summary has the failure.
        """
        # an earlier session of the run may have saved a result
        changes: dict[str, Any] = {"state": PullOutcome.DUE, "answered_at": None, "summary": {}}
        if person.grant is not None:  # the one that was used
            changes["grant_id"] = person.grant.grant_id
        lists, now = [], self.run.clock()
        for kind, answer in person.answers.items():
            result = self._read(person, kind, answer) if isinstance(answer, bytes) else answer
            if isinstance(result, AnsweredList):
                lists.append(result)
            elif kind is self.kinds[0]:
                person.record = person.record.model_copy(update={**changes, "state": result})
                self.store.pulls.put([person.record], now)
                break
            else:
                changes["summary"][kind.value] = {"outcome": result.value}
        else:
            old_before = now - self.run.settings.transactions_reread_days * DAY_MICROS
            pulled = person.record.model_copy(update={**changes, "answered_at": now})
            person.record = self.store.save_lists(pulled, lists, old_before=old_before)
        person.state = person.record.state.value

    def _read(
        self, person: PulledCustomer, kind: PulledKind, body: bytes
    ) -> AnsweredList | PullOutcome:
        raw = read_list(body, only_lists=kind is not PulledKind.PROFILE)
        if raw is None:
            return PullOutcome.FAILED
        drift, names = Drift([("shape", raw.shape)]), self.run.journal.pseudonyms
        read = self.fields[kind].read
        records, repeated = read(kind, raw.records, names, person.subject, drift)
        unreadable = [
            [each.place, each.key.hex(), each.problem, each.column]
            for each in records
            if each.problem
        ]
        summary = {
            "answered": len(records),
            "repeated": repeated,
            "drift": drift.document(),
            "unreadable": unreadable,
        }
        return AnsweredList(kind, records, summary)

    def requeue_failed(self) -> None:
        """Make customers whose list failed due again, also in doubt: repeating a list is safe."""
        for each in self.people:
            if each.task is not None and each.state == PullOutcome.IN_DOUBT:
                each.state = FAILED
        super().requeue_failed()

    def _stop_on_failures(self) -> None:
        """Stop the run if too many customers failed."""
        done = [each for each in self.people if each.task is not None and each.state != PENDING]
        failed = sum(each.state in _FAILURES for each in done)
        tolerated = self.run.settings.tolerated_failure_pct * len(done)
        if len(done) >= TOLERATED_FROM and 100 * failed > tolerated:
            self.run.stops.stop(StopReason.FAILURES)

    # --- closing ---

    def write(self) -> ReportParts:
        """Lapse grants whose refresh was refused, and write every file from the journal."""
        lapsed = self._lapse_refused()
        pulls = self.store.pulls.of_run(self.run.run_id)
        outcomes = Counter(each.state.value for each in pulls)
        counts, drift = Counter[str](), Drift()
        for kind, summary in chain.from_iterable(each.summary.items() for each in pulls):
            counts.update({name: summary.get(name, 0) for name in (*_COUNTS, "answered")})
            counts["unreadable"] += len(summary.get("unreadable", ()))
            counts[f"repeated {kind}"] += summary.get("repeated", 0)
            counts["profile lost"] += "outcome" in summary
            drift.add(summary.get("drift", {}))
        self.rows_read, self.rows_refused = counts["answered"], counts["unreadable"]
        numbers = {
            "lapsed": lapsed,
            "short": outcomes[PullOutcome.SUSPICIOUS_SHORT],
            "profile lost": counts["profile lost"],
            "refused": outcomes[PullOutcome.REFRESH_REFUSED],
        }
        notices = (f"{number} {NOTICES[name]}" for name, number in numbers.items() if number)
        self.run.stops.notices.extend(notices)
        due = PullOutcome.DUE.value
        more = {
            "customers": {
                due: len(pulls),
                **{each.value: outcomes[each] for each in PullOutcome if each != due},
                "pending": outcomes[due],
            },
            "changes": {name: counts[name] for name in _COUNTS},
            **{
                kind.folder: {
                    "written": rows,
                    "file": "/".join(self._part(kind).parts[-3:]) if rows else None,
                    "repeated": counts[f"repeated {kind}"],
                }
                for kind, rows in self._write_files(pulls).items()
            },
            "drift": drift.document(),
        }
        return ReportParts(outcomes, more)

    def _write_files(self, pulls: Sequence[Pulled]) -> dict[PulledKind, int]:
        """Write the results of the run's pulls; return the number of typed records of each kind."""
        ids = {each.customer: each.customer_id for each in self.consents.grants()}
        written = dict.fromkeys(self.kinds, 0)
        if self.run.stops.ending()[0] != TEST_MODE:
            written = {kind: self._write_typed(kind, pulls, ids) for kind in self.kinds}
            write_cash_flow(self.run, self.store, CashFlow.of(self.run.settings), pulls)
        write_rows(self.run.folder, CHANGES_FILE, self._changes(pulls), CHANGES_SCHEMA)
        with csv_file(self.run.folder.path / QUARANTINE, _QUARANTINED) as refuse:
            for each in pulls:  # each record's owner, its place in the list, and why
                for summary in each.summary.values():
                    for place, key, code, column in summary.get("unreadable", ()):
                        whose = ids.get(each.customer, "")
                        refuse([whose, key, place, column, code, HINTS.get(code, "")])
        self.run.folder.rows[QUARANTINE] = self.rows_refused
        return written

    def _part(self, kind: PulledKind) -> Path:
        """Return the run's own file of typed records, partitioned by the day in Lagos."""
        folder, day = self.run.folder.path, lagos_day(self.run.started_at).isoformat()
        return folder.parent / kind.folder / f"pulled_on={day}" / f"{folder.name}.parquet"

    def _write_typed(
        self, kind: PulledKind, pulls: Sequence[Pulled], ids: Mapping[bytes, str]
    ) -> int:
        """Write typed records; return their number.

        Transactions are those that the run added or modified; accounts and profiles are all current
        ones of the customers it pulled. Without records there is no file. The file of an earlier
        session of the run is replaced.
        """
        path, fields = self._part(kind), self.fields[kind]
        rows = (
            {
                **fields.typed(raw),
                "customer_id": ids[stored.customer],
                "record_key": stored.record_key.hex(),
                "change": stored.told_as if stored.run_id == self.run.run_id else UNCHANGED,
                "seen_at": to_instant(stored.first_seen_at),
            }
            for stored, raw in self._versions(kind, pulls)
            if stored.problem is None and stored.customer in ids
        )
        first = next(rows, None)
        if first is None:
            path.unlink(missing_ok=True)
            return 0
        make_private_folder(path.parents[1], ours=False)
        part = RunFolder(make_private_folder(path.parent))
        return write_rows(part, path.name, chain([first], rows), fields.schema)

    def _versions(self, kind: PulledKind, pulls: Sequence[Pulled]) -> Iterator[Version]:
        if not kind.is_state:
            yield from self.store.versions_of_run(self.run.run_id, kind)
            return
        for each in pulls:
            if each.state in KEPT and "answered" in each.summary.get(kind.value, ()):
                yield from self.store.current(each.customer, kind)

    def _changes(self, pulls: Sequence[Pulled]) -> Iterator[dict[str, Any]]:
        for row in self.store.changes(self.run.run_id):
            yield {
                "customer": row.customer.hex(),
                "record_key": row.record_key.hex(),
                "change": row.change,
                "readable": row.problem is None,
                "changed_at": to_instant(row.at),
            }
        for each in pulls:
            if each.state is PullOutcome.SUSPICIOUS_SHORT:
                yield {
                    "customer": each.customer.hex(),
                    "change": each.state.value,
                    "changed_at": to_instant(each.answered_at or 0),
                    "records": each.summary[each.pulled.value]["held"],
                }

    def _lapse_refused(self) -> int:
        """Lapse the grants whose refresh the service refused; return how many.

        If the run had an answer to another call with the API key, the key works, so the grants have
        lapsed. Otherwise no grant lapses, and the run stops with `auth`.
        """
        pulls = self.store.pulls.of_run(self.run.run_id)
        refused = [each for each in pulls if each.state is PullOutcome.REFRESH_REFUSED]
        if not refused:
            return 0
        key_works = any(
            row.check in _WITH_API_KEY and row.state == CallState.ANSWERED.value
            for rows in self.run.journal.runs.calls(self.run.run_id)
            for row in rows
        )
        if not key_works:
            self.run.stops.stop(StopReason.AUTH)
            return 0
        for each in refused:  # one by one: a run that dies here counts the rest when it is resumed
            self.consents.lapse(each.grant_id, REFUSED)
            lapsed = each.model_copy(update={"state": PullOutcome.LAPSED})
            self.store.pulls.put([lapsed], self.run.clock())
        return len(refused)


class TransactionPull(Pull):
    """Pull the transactions of every live grant."""

    flow, name = "pull_transactions", "transactions"
    operation = Operation.AGGREGATOR_TRANSACTIONS
    kinds = (PulledKind.TRANSACTION,)


class AccountPull(Pull):
    """Pull the linked accounts of every live grant, and profiles where granted."""

    flow, name = "pull_accounts", "accounts"
    operation = Operation.AGGREGATOR_ACCOUNTS
    kinds = (PulledKind.BANK_ACCOUNT, PulledKind.PROFILE)


def scope_of(kind: PulledKind) -> wire.Scope:
    """Return the scope that allows a kind of record to be pulled."""
    return wire.SCOPED[OPERATION_OF[kind]].scope


def list_request(grant: Grant, kind: PulledKind, under: str) -> Request:
    """Return the request for a list, if the customer's consent covers it.

    Raises:
        UsageError: the scope it needs was not granted (authentication 4).
    """
    scope = scope_of(kind)
    if grant.tokens is None or not grant.allows(scope):
        raise UsageError(
            f"the customer did not grant {scope}, or the grant has ended; ask for it with: "
            f"nightscreen consent link CUSTOMER_ID --scope {scope}"
        )
    return wire.scoped(OPERATION_OF[kind], grant.tokens.access_token, under=under)
