"""Pull data that customers consented to: transactions, or linked accounts with the profile.

An access token is used until the service refuses it; then it is refreshed once, by one task of one
process, and tried once more. Files, notices and report are made only from the journal, so that a
pull that was stopped or killed ends the same way as a complete one. `records` compares a list with
the last one; `operations/person_run.py` drives the run.
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
from nightscreen.files.quarantine import quarantine_file
from nightscreen.files.run_folder import RunFolder
from nightscreen.journal.consents import Consents
from nightscreen.operations.person_run import (
    FAILED,
    PENDING,
    Person,
    PersonRun,
    ReportParts,
    write_rows,
)
from nightscreen.operations.transactions.cashflow import CashFlow, write_cash_flow
from nightscreen.operations.transactions.records import (
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
from nightscreen.schemas.consented import PULLS, Grant, GrantState, Tokens
from nightscreen.schemas.errors import InputError, UsageError
from nightscreen.schemas.pulls import (
    FINAL,
    KEPT,
    UNCHANGED,
    Pulled,
    PulledKind,
    PullOutcome,
    PullTransactions,
    TransactionChange,
)
from nightscreen.schemas.rows import INSTANT, RefusedRow, SourceColumn
from nightscreen.schemas.stops import TEST_MODE, StopReason

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from nightscreen.calling.caller import Caller
    from nightscreen.calling.lookup_task import LookupTask
    from nightscreen.calling.run import Run
    from nightscreen.config.settings import Settings
    from nightscreen.operations.transactions.records import Version
    from nightscreen.schemas.consented import RawRecords
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
whose list was suspiciously short, with the number of removals that wait."""
_QUARANTINED = tuple(SourceColumn(name, None, name) for name in ("customer_id", "record_key"))
NOTICES = {
    "lapsed": "consents lapsed, since the service does not renew them any more: ask these "
    "customers again; see: nightscreen consent list",
    "short": "customers' lists are suspicious: they lack much of what was there; nothing is "
    "reported as removed until the next pull confirms it",
    "lost beside": "customers' profiles were not answered; their accounts are kept, and the next "
    "pull asks again",
    "refused": "refreshes were refused and no other call under this key was answered: check "
    "NIGHTSCREEN_API_KEY, then resume the run; no consent was given up",
}
"""Notices about a pull; the number of customers is put before the text."""
_COUNTS = (*(each.value for each in TransactionChange), "held", "out_of_reach")

OPERATION_OF: Final = {
    PulledKind.TRANSACTION: Operation.AGGREGATOR_TRANSACTIONS,
    PulledKind.BANK_ACCOUNT: Operation.AGGREGATOR_ACCOUNTS,
    PulledKind.PROFILE: Operation.AGGREGATOR_PROFILE,
}
REFUSED = "the service refused to renew the access"
"""Why a grant lapsed, as `consent list` shows it."""
_LEASE_POLL_S = 0.2  # how often to check whether another task has refreshed the token
_UNDER_KEY = (Operation.AGGREGATOR_REFRESH.value, Operation.AGGREGATOR_EXCHANGE.value)
_ANSWERED = frozenset({LookupStatus.PAID, LookupStatus.FREE})
_LOST = {
    LookupStatus.FAILED: PullOutcome.FAILED,
    LookupStatus.IN_DOUBT: PullOutcome.IN_DOUBT,
}
_FAILURES = frozenset(outcome.value for outcome in _LOST.values())


@dataclass(slots=True, kw_only=True)
class PulledCustomer(Person):
    """A customer whose data are pulled."""

    pulled: Pulled  # the state in the journal
    grant: Grant | None = None  # the consent, when the customer is asked
    # the answer for each list, or why there is none
    came: dict[PulledKind, bytes | PullOutcome] = field(default_factory=dict)


class Pull(PersonRun[PullTransactions, PulledCustomer]):
    """One pull."""

    kind: ClassVar[SubjectKind] = SubjectKind.CUSTOMER
    # the kinds of records. The first decides who is due; the others are pulled too if granted.
    kinds: ClassVar[tuple[PulledKind, ...]]
    re_entered: ClassVar[bool] = True

    def __init__(self, run: Run, parameters: PullTransactions) -> None:
        super().__init__(run, parameters)
        self.consents = Consents(run.journal)
        self.store = PullStore(run.journal)
        self.fields = {kind: load_fields(kind) for kind in self.kinds}
        run.stops.tolerated_failure_pct = 100.0  # a refused token is no failure: `_watch` judges

    @classmethod
    def identify(cls, parameters: PullTransactions, settings: Settings) -> tuple[str, str]:  # noqa: ARG003 - no input
        """Return the batch name of pulls; a lender's own tables are read before any call.

        Raises:
            SettingsError: the table of narrations or of features has a mistake.
        """
        CashFlow.of(settings)
        return PULLS, ""

    def load_people(self) -> list[PulledCustomer]:
        """Save who is due, or find who is still due in a resumed run.

        Raises:
            InputError: a grant that was named is not live.
        """
        if self.run.is_new:
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
            self.store.pulls.add(due)
        return [
            PulledCustomer(
                subject=each.customer,
                state=each.state.value if each.state in FINAL else PENDING,
                pulled=each,
            )
            for each in self.store.pulls.of_run(self.run.run_id)
        ]

    def _chosen(self) -> list[Grant]:
        """Return the live grants with the scope, or those of them that were named."""
        scope, wanted = scope_of(self.kinds[0]), self.parameters.grants
        live = {each.grant_id: each for each in self.consents.grants(GrantState.LIVE, scope)}
        missing = next((each for each in wanted if each not in live), None)
        if missing is not None:
            raise InputError(
                f"there is no live grant {missing} with the scope {scope}; see: nightscreen "
                "consent list, and ask for consent with: nightscreen consent link"
            )
        return [live[each] for each in dict.fromkeys(wanted)] if wanted else list(live.values())

    # --- one customer's turn ---

    async def ask_person(self, caller: Caller, person: PulledCustomer) -> bool:
        """Ask for each granted list, and save the answers.

        The current live grant counts: there may be a newer consent, or none any more.
        """
        person.came, own = {}, scope_of(self.kinds[0])
        person.grant = await to_thread(self.consents.live, person.subject, own)
        if person.grant is None:
            await to_thread(self._settle, person, PullOutcome.ENDED)
            return True
        for kind in self.kinds:
            if not person.grant.allows(scope_of(kind)):
                continue
            if kind is not self.kinds[0]:
                self.run.progress[self.operation].wanted += 1
            came = await self._list(caller, person, person.grant, kind)
            if came is not None:
                person.came[kind] = came
            if not isinstance(came, bytes):
                break
        if person.came:
            await to_thread(self.save_result, person)
        if person.state in _FAILURES:
            self._watch()
        return True

    async def _list(
        self, caller: Caller, person: PulledCustomer, given: Grant, kind: PulledKind
    ) -> bytes | PullOutcome | None:
        """Ask for a list, again if its token could be refreshed; None on a stop."""
        grant = given
        while True:
            request = list_request(grant, kind, self.run.settings.aggregator_path)
            task = await self._call(caller, grant, request)
            if kind is self.kinds[0]:
                person.task = task
            trouble = None if task.reading is None else task.reading.trouble
            if task.status not in _LOST or trouble is not FailureReason.TOKEN:
                break
            if grant is not given:
                return PullOutcome.TOKEN_REFUSED
            fresh = await self._fresh(caller, grant)
            if not isinstance(fresh, Tokens):
                return fresh
            person.grant = grant = grant.model_copy(update={"tokens": fresh})
        if task.status in _ANSWERED and task.reading is not None:
            body, task.reading = task.reading.body, None
            return body
        return _LOST.get(task.status)

    async def _call(self, caller: Caller, grant: Grant, request: Request) -> LookupTask:
        """Make a call under the customer's consent; its answer is not stored."""
        task = caller.task(
            request,
            kind=self.kind,
            subject=grant.customer,
            keeps_body=False,
            consent_reference=grant.grant_id,
        )
        return await caller.make_call(task)

    async def _fresh(self, caller: Caller, grant: Grant) -> Tokens | PullOutcome | None:
        """Return a newer access token, refreshed here or by another task; None on a stop."""
        grant_id, used = grant.grant_id, grant.tokens
        while self.run.stops.reason is None:
            lease = await to_thread(self.consents.take_lease, grant_id)
            try:
                held = await to_thread(self.consents.find, grant_id)
                if held is None or held.tokens is None:
                    return PullOutcome.ENDED
                if used is None or held.tokens.generation != used.generation:
                    return held.tokens
                if lease is not None:
                    return await self._refresh(caller, held, held.tokens)
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
        """Ask for a new access token once (specification, access token lifecycle)."""
        if not tokens.refresh_token:
            return PullOutcome.TOKEN_REFUSED
        self.run.progress[self.operation].wanted += 2
        redirect_uri = str(grant.evidence.get("redirect_uri") or self.run.settings.redirect_uri)
        request = wire.refresh(tokens.refresh_token, redirect_uri)
        task = await self._call(caller, grant, request)
        reading = task.reading
        if task.status is LookupStatus.WAITING:
            return None
        if task.status is LookupStatus.IN_DOUBT:  # proves nothing
            return PullOutcome.IN_DOUBT
        if task.status is LookupStatus.FAILED:
            refused = reading is not None and reading.trouble is FailureReason.GRANT
            return PullOutcome.REFRESH_REFUSED if refused else PullOutcome.FAILED
        body = b"" if reading is None else reading.body
        answer = parse_answer(Operation.AGGREGATOR_REFRESH, body)
        if answer is None:
            return PullOutcome.FAILED
        return await to_thread(self.consents.refreshed, grant.grant_id, answer) or PullOutcome.ENDED

    # --- answers ---

    def _settle(self, person: PulledCustomer, outcome: PullOutcome) -> None:
        pulled = _as_begun(person).model_copy(update={"state": outcome})
        self.store.save_state(pulled)
        person.pulled, person.state = pulled, outcome.value

    def save_result(self, person: PulledCustomer) -> None:
        """Read the answers, compare them with the known records, and save what is new.

        A failure of a further list never affects the first one; it is recorded in the summary.
        """
        lists = []
        summary: dict[str, dict[str, str]] = {}
        for kind, came in person.came.items():
            found: AnsweredList | PullOutcome = PullOutcome.FAILED
            if isinstance(came, PullOutcome):
                found = came
            elif (read := read_list(came, only_lists=kind is not PulledKind.PROFILE)) is not None:
                found = self._read(person, kind, read)
            if isinstance(found, AnsweredList):
                lists.append(found)
            elif kind is self.kinds[0]:
                self._settle(person, found)
                return
            else:
                summary[kind.value] = {"outcome": found.value}
        now = self.run.clock()
        old_before = now - self.run.settings.transactions_reread_days * DAY_MICROS
        noted = {"answered_at": now, "summary": summary}
        pulled = _as_begun(person).model_copy(update=noted)
        person.pulled = self.store.save_lists(pulled, lists, old_before=old_before)
        person.state = person.pulled.state.value

    def _read(self, person: PulledCustomer, kind: PulledKind, found: RawRecords) -> AnsweredList:
        drift, names = Drift([("shape", found.shape)]), self.run.journal.pseudonyms
        records, repeated = self.fields[kind].read(found.records, names, person.subject, drift)
        unreadable = [
            [each.place, each.key.hex(), each.problem, each.column]
            for each in records
            if each.problem
        ]
        noted = {
            "answered": len(records),
            "repeated": repeated,
            "drift": drift.document(),
            "unreadable": unreadable,
        }
        return AnsweredList(kind, records, noted)

    def requeue_failed(self) -> None:
        """Queue customers whose list failed or was lost, since asking for a list again is safe."""
        for each in self.people:
            if each.task is not None and each.state == PullOutcome.IN_DOUBT:
                each.state = FAILED
        super().requeue_failed()

    def _watch(self) -> None:
        """Stop where too many customers failed."""
        done = [each for each in self.people if each.task is not None and each.state != PENDING]
        failed = sum(each.state in _FAILURES for each in done)
        tolerated = self.run.settings.tolerated_failure_pct * len(done)
        if len(done) >= TOLERATED_FROM and 100 * failed > tolerated:
            self.run.stops.stop(StopReason.FAILURES)

    # --- the end ---

    def write(self) -> ReportParts:
        """Judge refused refreshes, and write every file, all from the journal."""
        lapsed = self._judge_refused()
        pulls = self.store.pulls.of_run(self.run.run_id)
        outcomes = Counter(each.state.value for each in pulls)
        counts, drift = Counter[str](), Drift()
        for kind, noted in chain.from_iterable(each.summary.items() for each in pulls):
            counts.update({word: noted.get(word, 0) for word in (*_COUNTS, "answered")})
            counts["unreadable"] += len(noted.get("unreadable", ()))
            counts[f"repeated {kind}"] += noted.get("repeated", 0)
            counts["lost beside"] += "outcome" in noted
            drift.add(noted.get("drift", {}))
        self.rows_read, self.rows_refused = counts["answered"], counts["unreadable"]
        numbers = {
            "lapsed": lapsed,
            "short": outcomes[PullOutcome.SUSPICIOUS_SHORT],
            "lost beside": counts["lost beside"],
            "refused": outcomes[PullOutcome.REFRESH_REFUSED],
        }
        said = (f"{number} {NOTICES[word]}" for word, number in numbers.items() if number)
        self.run.stops.notices.extend(said)
        due = PullOutcome.DUE.value
        more = {
            "customers": {
                due: len(pulls),
                **{each.value: outcomes[each] for each in PullOutcome if each != due},
                "pending": outcomes[due],
            },
            "changes": {word: counts[word] for word in _COUNTS},
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
        refused = (  # customer, position in the list and cause; the record itself stays sealed
            RefusedRow(
                line=place,
                column=column,
                code=code,
                hint=HINTS.get(code, ""),
                values=(ids.get(each.customer, ""), key),
            )
            for each in pulls
            for noted in each.summary.values()
            for place, key, code, column in noted.get("unreadable", ())
        )
        with quarantine_file(self.run.folder.path / QUARANTINE, _QUARANTINED) as write:
            write(refused)
        self.run.folder.rows[QUARANTINE] = self.rows_refused
        return written

    def _part(self, kind: PulledKind) -> Path:
        """Return the path of the run's typed records, by day in Lagos."""
        folder, day = self.run.folder.path, lagos_day(self.run.started_at).isoformat()
        return folder.parent / kind.folder / f"pulled_on={day}" / f"{folder.name}.parquet"

    def _write_typed(
        self, kind: PulledKind, pulls: Sequence[Pulled], ids: Mapping[bytes, str]
    ) -> int:
        """Write typed records; return their number.

        For transactions these are the records that the run added or modified; for accounts and
        profiles all current records of the customers it pulled. Without records there is no file,
        and the file of an earlier session of the run is replaced.
        """
        path, fields = self._part(kind), self.fields[kind]

        def typed(version: Version) -> dict[str, Any]:
            is_new = version.run_id == self.run.run_id
            return {
                **fields.typed(version.raw),
                "customer_id": ids[version.customer],
                "record_key": version.key.hex(),
                "change": version.change.value if is_new else UNCHANGED,
                "seen_at": to_instant(version.first_seen_at),
            }

        def is_shown(version: Version) -> bool:
            return version.problem is None and version.customer in ids

        tables = (
            pa.Table.from_pylist(rows, fields.schema)
            for block in self._blocks(kind, pulls)
            if (rows := [typed(each) for each in block if is_shown(each)])
        )
        first = next(tables, None)
        if first is None:
            path.unlink(missing_ok=True)
            return 0
        make_private_folder(path.parents[1], ours=False)
        part = RunFolder(make_private_folder(path.parent))
        return part.write_parquet(path.name, fields.schema, chain([first], tables))

    def _blocks(self, kind: PulledKind, pulls: Sequence[Pulled]) -> Iterator[list[Version]]:
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

    def _judge_refused(self) -> int:
        """Judge the run's refused refreshes together; return how many grants lapsed.

        If another call with the API key was answered in the run, the key is valid and the service
        no longer accepts the grants. Otherwise no grant lapses, and the run's stop is `auth`.
        """
        pulls = self.store.pulls.of_run(self.run.run_id)
        refused = [each for each in pulls if each.state is PullOutcome.REFRESH_REFUSED]
        if not refused:
            return 0
        key_works = any(
            row.check in _UNDER_KEY and row.state == CallState.ANSWERED.value
            for rows in self.run.journal.runs.calls(self.run.run_id)
            for row in rows
        )
        if not key_works:
            self.run.stops.stop(StopReason.AUTH)
            return 0
        for each in refused:
            self.consents.lapse(each.grant_id, REFUSED)
            self.store.save_state(each.model_copy(update={"state": PullOutcome.LAPSED}))
        return len(refused)


class TransactionPull(Pull):
    """A pull of transactions."""

    flow, name = "pull_transactions", "transactions"
    operation = Operation.AGGREGATOR_TRANSACTIONS
    kinds = (PulledKind.TRANSACTION,)


class AccountPull(Pull):
    """A pull of linked accounts, with the profile if granted."""

    flow, name = "pull_accounts", "accounts"
    operation = Operation.AGGREGATOR_ACCOUNTS
    kinds = (PulledKind.BANK_ACCOUNT, PulledKind.PROFILE)


def _as_begun(person: PulledCustomer) -> Pulled:
    """Return a customer's initial state, under the grant that is used."""
    begun: dict[str, Any] = {"state": PullOutcome.DUE, "answered_at": None, "summary": {}}
    if person.grant is not None:
        begun["grant_id"] = person.grant.grant_id
    return person.pulled.model_copy(update=begun)


def scope_of(kind: PulledKind) -> wire.Scope:
    """Return the scope that a kind of record needs."""
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
