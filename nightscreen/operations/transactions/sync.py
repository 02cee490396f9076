"""Pulling what customers consented to: who is due, and how one of them is asked about.

Transactions, or linked accounts with the profile beside them where that was granted. An access
token is used until the service refuses it; then it is refreshed once, by one task of one process,
and tried once more. What a list says beside the last one is `comparison`'s, what is written of a
run is `report`'s, how calls are made is `calling`'s.
"""

from __future__ import annotations

import asyncio
from asyncio import to_thread
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from nightscreen.calling.stops import TOLERATED_FROM
from nightscreen.client import aggregator
from nightscreen.client.classify import FailureReason
from nightscreen.client.response_parser import parse_answer
from nightscreen.journal.consents import Consents
from nightscreen.operations.transactions.cashflow import CashFlow
from nightscreen.operations.transactions.comparison import changed_fields, compare, read_records
from nightscreen.operations.transactions.json_decode import read_list
from nightscreen.operations.transactions.record_fields import Drift, RecordFields, load_fields
from nightscreen.operations.transactions.transaction_files import Comparing, Transactions
from nightscreen.runs.run import open_api_run
from nightscreen.schemas.calls import LookupStatus
from nightscreen.schemas.checks import Operation, SubjectKind
from nightscreen.schemas.clock import DAY_MICROS, system_clock
from nightscreen.schemas.consented import PULLS, GrantState
from nightscreen.schemas.errors import InputError, ScopeNotGrantedError
from nightscreen.schemas.pulls import (
    FINAL,
    Difference,
    Known,
    PullAccounts,
    Pulled,
    PulledKind,
    PullOutcome,
    PullTransactions,
)
from nightscreen.schemas.stops import StopReason

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nightscreen.calling.caller import Caller
    from nightscreen.calling.lookup_task import LookupTask
    from nightscreen.calling.progress import CheckProgress
    from nightscreen.calling.run import Run
    from nightscreen.config.settings import Settings
    from nightscreen.schemas.clock import Clock
    from nightscreen.schemas.consented import Grant, Tokens
    from nightscreen.schemas.requests import Request

BESIDE: Final = {
    PulledKind.TRANSACTION: (PulledKind.TRANSACTION,),
    PulledKind.BANK_ACCOUNT: (PulledKind.BANK_ACCOUNT, PulledKind.PROFILE),
}
"""What each flow pulls. The first decides who is due; the others come beside it where granted."""
OPERATION_OF: Final = {
    PulledKind.TRANSACTION: Operation.AGGREGATOR_TRANSACTIONS,
    PulledKind.BANK_ACCOUNT: Operation.AGGREGATOR_ACCOUNTS,
    PulledKind.PROFILE: Operation.AGGREGATOR_PROFILE,
}
REFUSED = "the service refused to renew the access"
"""Why a grant lapsed, as `consent list` shows it."""
_LEASE_POLL_S = 0.2
_SHARDS = 8
_TURNS_A_CALL = 2
"""Customers whose turn it is at once for each call in flight: one is asked, one is written down."""

_FAILURES = {
    PullOutcome.FAILED: LookupStatus.FAILED,
    PullOutcome.IN_DOUBT: LookupStatus.IN_DOUBT,
}


@dataclass(slots=True)
class TransactionSync:
    """One pull under way.

    Attributes:
        run: the run.
        kind: what is pulled first of all, and decides who is due.
        fields: what is known of the fields of each kind that is pulled.
        due: who is still to be pulled, in shards by number.
        key_worked: a call under the API key was answered in this run, so that a refused refresh
            cannot be the key's fault.
        settled: what became of the customers whose turn is over.
        turns: bounds whose turn it is, so that nothing more is asked while keeping lags behind.
    """

    run: Run
    kind: PulledKind
    consents: Consents
    store: Transactions
    fields: dict[PulledKind, RecordFields]
    cash_flow: CashFlow
    turns: asyncio.Semaphore
    due: list[list[Pulled]] = field(default_factory=list)
    key_worked: bool = False
    settled: dict[bytes, PullOutcome] = field(default_factory=dict)

    @property
    def progress(self) -> CheckProgress:
        """Return the numbers of its calls."""
        return self.run.progress[OPERATION_OF[self.kind]]

    @property
    def scope(self) -> aggregator.Scope:
        """Return the scope that whoever is due must have granted."""
        return scope_of(self.kind)


@dataclass(frozen=True, slots=True)
class PullEnd:
    """A customer's turn ended without a list."""

    outcome: PullOutcome
    standing: LookupStatus = LookupStatus.WAITING


def open_pull_run(
    parameters: PullTransactions, settings: Settings, *, clock: Clock = system_clock
) -> Run:
    """Open a run, or resume one; nothing is sent.

    Raises:
        UsageError: settings or parameters are wrong.
        JournalError: the journal cannot be used.
    """
    kind = kind_of(parameters)
    return open_api_run(
        parameters,
        settings,
        flow=f"pull_{kind.folder}",
        batch=PULLS,
        operation=OPERATION_OF[kind],
        clock=clock,
    )


def kind_of(parameters: object) -> PulledKind:
    """Return what a pull with these parameters pulls first of all."""
    accounts = isinstance(parameters, PullAccounts)
    return PulledKind.BANK_ACCOUNT if accounts else PulledKind.TRANSACTION


def scope_of(kind: PulledKind) -> aggregator.Scope:
    """Return the scope under which a kind of record may be asked for."""
    return aggregator.SCOPED[OPERATION_OF[kind]].scope


def begin_pull(run: Run) -> TransactionSync:
    """Write down who is due, or find out who still is in a run that is resumed.

    Raises:
        UsageError: a grant that was named is not live.
        SettingsError: the table of fields, of narrations or of features has a mistake.
    """
    run.stops.tolerated_failure_pct = 100.0  # a refused token is no failure: `_watch` judges
    turns = asyncio.Semaphore(_TURNS_A_CALL * run.settings.max_in_flight["aggregator"])
    kind = kind_of(run.parameters)
    pull = TransactionSync(
        run,
        kind,
        Consents.of(run.journal),
        Transactions.of(run.journal),
        {each: load_fields(each) for each in BESIDE[kind]},
        CashFlow.of(run.settings),
        turns,
    )
    if run.is_new:
        wanted = run.parameters.grants if isinstance(run.parameters, PullTransactions) else []
        chosen = _chosen(pull, wanted)
        pull.store.begin(run.run_id, ((each.customer, each.grant_id) for each in chosen), kind)
    pulls = pull.store.pulls(run.run_id)
    left = [each for each in pulls if each.outcome not in FINAL]
    size = max(1, min(run.settings.shard_rows, -(-len(left) // _SHARDS)))
    pull.due = [left[start : start + size] for start in range(0, len(left), size)]
    pull.key_worked = _key_worked(run)
    pull.progress.wanted = len(left)
    return pull


def _chosen(pull: TransactionSync, wanted: Sequence[str]) -> list[Grant]:
    """Return the live grants with the scope, or those of them that were named."""
    live = {each.grant_id: each for each in pull.consents.grants(GrantState.LIVE, pull.scope)}
    if not wanted:
        return list(live.values())
    missing = next((each for each in wanted if each not in live), None)
    if missing is not None:
        raise InputError(
            f"there is no live grant {missing} with the scope {pull.scope}; see: nightscreen "
            "consent list, and ask for consent with: nightscreen consent link"
        )
    return [live[each] for each in dict.fromkeys(wanted)]


def _key_worked(run: Run) -> bool:
    """Return whether the service answered a call under the API key earlier in this run."""
    under_key = (Operation.AGGREGATOR_REFRESH.value, Operation.AGGREGATOR_EXCHANGE.value)
    return any(
        row.check in under_key and row.state == "answered"
        for rows in run.journal.runs.calls(run.run_id)
        for row in rows
    )


async def pull_shard(pull: TransactionSync, session: Caller, number: int) -> dict[str, int]:
    """Pull the customers of a shard; return how many came to which end.

    One customer's trouble never stops another's. Those not reached stay due.

    Raises:
        NightscreenError: the journal could not be written.
    """
    left = [each for each in pull.due[number] if each.customer not in pull.settled]
    async with asyncio.TaskGroup() as group:
        turns = [group.create_task(_pull_one(pull, session, each)) for each in left]
    return dict(Counter(turn.result().value for turn in turns))


async def _pull_one(pull: TransactionSync, session: Caller, due: Pulled) -> PullOutcome:
    """Pull one customer and write down how it went."""
    async with pull.turns:
        done = await _Turn(pull, session, due).take()
    if done is not None:
        pull.settled[due.customer] = done.outcome
        _watch(pull)
        return done.outcome
    return PullOutcome.DUE


def _watch(pull: TransactionSync) -> None:
    """Stop where too many customers failed."""
    done = len(pull.settled)
    failed = sum(each in _FAILURES for each in pull.settled.values())
    if done >= TOLERATED_FROM and 100 * failed > pull.run.settings.tolerated_failure_pct * done:
        pull.run.stops.stop(StopReason.FAILURES)


def pull_again(pull: TransactionSync) -> None:
    """Let customers whose list was lost or failed have their turn again."""
    lost = {customer: end for customer, end in pull.settled.items() if end in _FAILURES}
    for customer in lost:
        del pull.settled[customer]
    pull.progress.take_back(_FAILURES[end] for end in lost.values())


def within_scope(grant: Grant, request: Request) -> Request:
    """Return a request that the customer's consent covers.

    Raises:
        ScopeNotGrantedError: the scope it needs was not granted (authentication 4).
    """
    scope = aggregator.SCOPED[request.operation].scope
    if not grant.allows(scope):
        raise ScopeNotGrantedError(
            f"the customer did not grant {scope}, or the grant has ended; ask for it with: "
            f"nightscreen consent link CUSTOMER_ID --scope {scope}"
        )
    return request


@dataclass(slots=True)
class _Turn:
    """One customer's turn in a pull."""

    pull: TransactionSync
    session: Caller
    due: Pulled

    async def take(self) -> Pulled | None:
        """Ask, refresh once where the token is refused, ask again; None where not reached."""
        grant = await to_thread(self._live_grant)
        if grant is None:
            return await self._ended(PullEnd(PullOutcome.ENDED))
        tokens = grant.tokens
        if tokens is None:
            return await self._ended(PullEnd(PullOutcome.ENDED))
        self.due = replace(self.due, grant_id=grant.grant_id)
        tasks: dict[PulledKind, LookupTask] = {}
        for kind in BESIDE[self.pull.kind]:
            if not grant.allows(scope_of(kind)):
                continue
            task = await self._list(kind, grant, tokens)
            if _refused(task):
                fresh = await self._fresh(grant, tokens)
                if isinstance(fresh, PullEnd):
                    return await self._ended(fresh)
                if fresh is None:
                    return None
                tokens = fresh
                task = await self._list(kind, grant, tokens)
                if _refused(task) and not tasks:
                    refused = PullEnd(PullOutcome.TOKEN_REFUSED, LookupStatus.FAILED)
                    return await self._ended(refused)
            tasks[kind] = task
            if task.status not in {LookupStatus.PAID, LookupStatus.FREE}:
                break
        return await self._keep(tasks)

    def _live_grant(self) -> Grant | None:
        """Return the customer's live grant that has the scope: a newer consent may be there."""
        return self.pull.consents.live(self.due.customer, self.pull.scope)

    async def _list(self, kind: PulledKind, grant: Grant, tokens: Tokens) -> LookupTask:
        run, token = self.pull.run, tokens.access_token
        request = aggregator.scoped(OPERATION_OF[kind], token, under=run.settings.aggregator_path)
        if kind is not self.pull.kind:
            self.pull.progress.wanted += 1
        return await self._call(grant, within_scope(grant, request))

    async def _call(self, grant: Grant, request: Request) -> LookupTask:
        """Make a call in the customer's name, under their consent; the journal keeps no body."""
        task = self.session.task(
            request,
            kind=SubjectKind.CUSTOMER,
            subject=grant.customer,
            keeps_body=False,
            consent_reference=grant.grant_id,
        )
        return await self.session.one(task)

    # --- refreshing ---

    async def _fresh(self, grant: Grant, used: Tokens) -> Tokens | PullEnd | None:
        """Return a newer access token, asking for one where no other task has; None on a stop."""
        consents = self.pull.consents
        while self.pull.run.stops.reason is None:
            lease = await to_thread(consents.take_lease, grant.grant_id)
            if lease is None:
                if not self.session.waits_for("an access that another task or process renews"):
                    return None
                await asyncio.sleep(_LEASE_POLL_S)
            held = await to_thread(consents.find, grant.grant_id)
            now = None if held is None else held.tokens
            if now is not None and now.generation == used.generation and lease is None:
                continue
            try:
                if now is None:
                    return PullEnd(PullOutcome.ENDED)
                if now.generation != used.generation:
                    return now
                return await self._refresh(grant, now)
            finally:
                if lease is not None:
                    await to_thread(consents.give_back, grant.grant_id, lease)
        return None

    async def _refresh(self, grant: Grant, tokens: Tokens) -> Tokens | PullEnd | None:
        """Ask for a new access token once (specification, access token lifecycle)."""
        if not tokens.refresh_token:
            return PullEnd(PullOutcome.TOKEN_REFUSED, LookupStatus.FAILED)
        self.pull.progress.wanted += 2
        redirect_uri = str(grant.evidence.get("redirect_uri") or "")
        request = aggregator.refresh(
            tokens.refresh_token, redirect_uri or self.pull.run.settings.redirect_uri
        )
        task = await self._call(grant, request)
        if task.status is LookupStatus.WAITING:
            return None
        if task.status in {LookupStatus.FAILED, LookupStatus.IN_DOUBT}:
            return PullEnd(_without_token(task), task.status)
        answer = parse_answer(
            Operation.AGGREGATOR_REFRESH, task.reading.body if task.reading else b""
        )
        if answer is None:
            return PullEnd(PullOutcome.FAILED, LookupStatus.FAILED)
        self.pull.key_worked = True
        fresh = await to_thread(self.pull.consents.refreshed, grant.grant_id, answer)
        return fresh if fresh is not None else PullEnd(PullOutcome.ENDED)

    # --- endings ---

    async def _ended(self, ending: PullEnd) -> Pulled:
        done = replace(self.due, outcome=ending.outcome, standing=int(ending.standing))
        await to_thread(self.pull.store.settle, done)
        return done

    async def _keep(self, tasks: dict[PulledKind, LookupTask]) -> Pulled | None:
        """Keep the records that were answered, or write down why there are none.

        What comes beside the first list never spoils it: how it failed stands in the summary.
        """
        if any(task.status is LookupStatus.WAITING for task in tasks.values()):
            return None
        answered_at = self.pull.run.clock()
        bodies: dict[PulledKind, bytes] = {}
        beside: dict[str, dict[str, str]] = {}
        for kind, task in tasks.items():
            if task.status in {LookupStatus.FAILED, LookupStatus.IN_DOUBT}:
                lost = task.status is LookupStatus.IN_DOUBT
                outcome = PullOutcome.IN_DOUBT if lost else PullOutcome.FAILED
                if kind is self.pull.kind:
                    return await self._ended(PullEnd(outcome, task.status))
                beside[kind] = {"outcome": outcome.value}
            elif task.reading is None:
                return None
            else:
                bodies[kind] = task.reading.body
                task.reading = None
        first = tasks[self.pull.kind]
        summary = {"beside": beside} if beside else {}
        due = replace(
            self.due, standing=int(first.status), answered_at=answered_at, summary=summary
        )
        return await to_thread(keep_lists, self.pull, due, bodies)


def _refused(task: LookupTask) -> bool:
    """Return whether the access token was refused, and nothing else stands in the way."""
    reading = task.reading
    failed = task.status in {LookupStatus.FAILED, LookupStatus.IN_DOUBT}
    return failed and reading is not None and reading.trouble is FailureReason.TOKEN


def _without_token(task: LookupTask) -> PullOutcome:
    """Return what a refresh that brought nothing means; one in doubt proves nothing."""
    reading = task.reading
    if task.status is LookupStatus.IN_DOUBT:
        return PullOutcome.IN_DOUBT
    refused = reading is not None and reading.trouble is FailureReason.GRANT
    return PullOutcome.REFRESH_REFUSED if refused else PullOutcome.FAILED


def keep_lists(pull: TransactionSync, due: Pulled, bodies: dict[PulledKind, bytes]) -> Pulled:
    """Read what was answered, hold it against what is known, and keep what is new of it.

    Args:
        pull: the pull.
        due: the customer, with the instant of the answers.
        bodies: the answers as they came, that of the pull's own kind first.

    Raises:
        JournalError: the journal cannot be written.
    """
    found = []
    for kind, body in bodies.items():
        comparing = _compared(pull, due, kind, body)
        if comparing is not None:
            found.append(comparing)
        elif kind is pull.kind:
            failed = replace(due, outcome=PullOutcome.FAILED, standing=int(LookupStatus.FAILED))
            pull.store.settle(failed)
            return failed
        else:
            beside = {**due.summary.get("beside", {}), kind: {"outcome": PullOutcome.FAILED.value}}
            due = replace(due, summary={"beside": beside})
    return pull.store.keep(due, found)


def _compared(
    pull: TransactionSync, due: Pulled, kind: PulledKind, body: bytes
) -> Comparing | None:
    """Return how a body is held against what is known; None where it holds no records."""
    lists = read_list(body, only_lists=kind is not PulledKind.PROFILE)
    if lists is None:
        return None
    drift = Drift()
    records, repeated = read_records(
        lists.records,
        pull.fields[kind],
        pull.run.journal.pseudonyms,
        due.customer,
        drift,
        kind,
    )
    unreadable = [
        [each.place, each.key.hex(), each.problem, each.column] for each in records if each.problem
    ]
    summary = {
        "answered": len(records),
        "repeated": repeated,
        "shape": lists.shape,
        "drift": drift.document(),
        "unreadable": unreadable,
    }
    reread_days = pull.run.settings.transactions_reread_days
    old_before = (due.answered_at or pull.run.clock()) - reread_days * DAY_MICROS

    def difference(known: list[Known], confirms: bool) -> Difference:
        # A state is short: one of two accounts gone is no sign of a list cut short, none left is.
        sure = confirms or (kind.is_state and bool(records))
        return compare(known, records, confirms=sure, old_before=old_before)

    return Comparing(kind, summary, difference, changed_fields)


def judge_refused(pull: TransactionSync) -> int:
    """Judge refused refreshes over the whole run; return how many grants lapsed.

    Where another call under the API key was answered in the run, the key is good and the grants are
    not honoured any more. Otherwise no grant lapses, and the run's stop is `auth`.
    """
    refused = [
        each
        for each in pull.store.pulls(pull.run.run_id)
        if each.outcome is PullOutcome.REFRESH_REFUSED
    ]
    if not refused:
        return 0
    if not pull.key_worked:
        pull.run.stops.stop(StopReason.AUTH)
        return 0
    for each in refused:
        pull.consents.lapse(each.grant_id, REFUSED)
        pull.store.settle(replace(each, outcome=PullOutcome.LAPSED))
    return len(refused)
