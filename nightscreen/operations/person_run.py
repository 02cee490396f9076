"""One driver for runs that call the service person by person: opening, calls, resuming and report.

`run_people` is the whole of such a run, from top to bottom; Prefect flows, the command line and
tests call it. Each flow is a subclass of `PersonRun`, which says whom it asks, how, and what it
writes. `RecordRun.after` reads the result of every call: of one that returned, and, from the
journal, of one whose process died.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import Counter
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, Self, TypeVar, cast

import pyarrow as pa

from nightscreen.calling.caller import Caller, wait_and_resume
from nightscreen.calling.lookup_task import CALL_STATES, SAID_OF_CUSTOMER
from nightscreen.calling.run import known_prices
from nightscreen.journal.records import Records
from nightscreen.journal.runs import RUNNING
from nightscreen.report.calls import write_calls
from nightscreen.report.page import api_run_page
from nightscreen.report.run_end import RunEnd, check_report, lookup_counts
from nightscreen.runs.run import open_api_run, prepare_api_run
from nightscreen.runs.runner import Runner, closing
from nightscreen.schemas.api_runs import ApiRunParameters
from nightscreen.schemas.calls import CallState, LookupStatus
from nightscreen.schemas.checks import NoAnswer, Operation, family_of
from nightscreen.schemas.clock import Clock, system_clock
from nightscreen.schemas.money import naira_text
from nightscreen.schemas.plan import CheckCounts, CheckQuote, Quote

if TYPE_CHECKING:
    from collections.abc import (
        AsyncIterator,
        Callable,
        Collection,
        Iterable,
        Mapping,
        Sequence,
    )

    from nightscreen.calling.lookup_task import LookupTask
    from nightscreen.calling.run import Run
    from nightscreen.client.transport import Transport
    from nightscreen.config.settings import Settings
    from nightscreen.files.run_folder import RunFolder
    from nightscreen.journal import Journal
    from nightscreen.schemas.checks import SubjectKind
    from nightscreen.schemas.records import JournalRecord

PENDING, FAILED = "pending", "failed"
"""States of a person whose call is still to be made, and of one whose call surely did nothing."""
_STATES_WITHOUT_ANSWER = {
    LookupStatus.WAITING: PENDING,
    LookupStatus.FAILED: FAILED,
    LookupStatus.LAPSED: NoAnswer.REFUSED.value,
}
"""A person's state after a call without an answer."""
LOST = frozenset({CallState.IN_DOUBT.value, CallState.INTENT.value, CallState.UNREADABLE.value})
"""States of a call whose effect is unknown; an unreadable one is paid for."""

_TURNS_PER_CALL = 2
"""People handled at once for each call in flight: one is asked while another is saved."""
_WAIT_S = 0.5  # how long to wait for people whom other processes are asking
_SECONDS_PER_CALL = 5.0
"""Estimate until the journal has measured calls: about what the service takes at night."""
_BLOCK = 4096  # rows built at once: bounds memory

P = TypeVar("P", bound=ApiRunParameters)
X = TypeVar("X")


@dataclass(slots=True, kw_only=True)
class Person:
    """One person in a run."""

    customer: bytes = field(default=b"", repr=False)  # pseudonym
    subject: bytes = field(default=b"", repr=False)  # pseudonym that the person's call is found by
    record: Any = field(default=None, repr=False)  # the journal record that counts now, if any
    # in the flow's own terms; `PENDING` while a call is still to be made
    state: str = PENDING
    task: LookupTask | None = None  # the call that was made in this session


T = TypeVar("T", bound=Person)


class ReportParts(NamedTuple):
    """The parts of a flow's report besides its calls."""

    answers: Mapping[str, int]  # results of the operation's calls, in the flow's own terms
    more: Mapping[str, Any] = {}  # further parts of the report
    cost: Mapping[str, Any] = {}  # further entries of its part `cost`


class PersonRun(ABC, Generic[P, T]):
    """A run in progress; the base of every flow that calls the service person by person.

    A flow that saves a journal record for each call is a `RecordRun`.

    Attributes:
        people: whom the run is about, in the order of the input.
        rows_read: rows of the input; of them `rows_refused` are in quarantine.
    """

    flow: ClassVar[str]  # the flow's name in the journal
    form: ClassVar[type[ApiRunParameters]]  # the model of its parameters
    name: ClassVar[str]  # names the flow's runs in Prefect
    batch: ClassVar[str] = ""  # the runs' batch name, unless the input determines it
    operation: ClassVar[Operation]  # what its calls are counted under
    kind: ClassVar[SubjectKind]  # what the subjects of its calls are pseudonyms of
    # ask one person first: if the key lacks the right, the service learns of one person only
    first_alone: ClassVar[bool] = False
    re_entered: ClassVar[bool] = False  # after an unforeseen error, the runner may call `ask` again

    def __init__(self, run: Run, parameters: P) -> None:
        self.run = run
        self.parameters = parameters
        self.people: list[T] = []
        self.rows_read = self.rows_refused = 0

    # --- what each flow defines ---

    @classmethod
    def identify(cls, parameters: P, settings: Settings) -> tuple[str, str]:  # noqa: ARG003 - of a kind with an input
        """Return the run's batch name, and the digest of its input, if any.

        Raises:
            UsageError: parameters or input are wrong; nothing was saved yet.
        """
        return cls.batch, ""

    @abstractmethod
    def load_people(self) -> list[T]:
        """Read the input and return the people the run is about."""

    def recover(self) -> None:
        """Recover calls whose process died, and those of this run."""

    def look_up(self, people: Sequence[T]) -> None:
        """Update people from the journal."""

    @abstractmethod
    async def ask_person(self, caller: Caller, person: T) -> bool:
        """Make one person's call and save the result; False if another process is asking them."""

    @abstractmethod
    def write(self) -> ReportParts:
        """Write the flow's own files from the journal alone; return its parts of the report."""

    def discard_secrets(self) -> None:
        """Delete from memory what must not outlive the calls, such as passwords."""

    def quoted_more(self) -> dict[str, Any]:
        """Return the entries of the quote besides money."""
        return {}

    # --- opening ---

    @classmethod
    def check(cls, parameters: P, settings: Settings) -> P:
        """Return parameters completed from the run to resume; nothing is saved or sent.

        Raises:
            UsageError: settings, parameters or input are wrong; one line says what to do.
            JournalError: the journal cannot be used.
        """
        identify = partial(cls.identify, settings=settings)
        at_once = settings.model_copy(update={"outage_give_up": timedelta()})  # somebody waits
        with ExitStack() as opened:
            _, _, complete, _, _ = prepare_api_run(
                parameters, at_once, opened, flow=cls.flow, identify=identify
            )
        return complete

    @classmethod
    def open(cls, parameters: P, settings: Settings, *, clock: Clock = system_clock) -> Self:
        """Open a new run, or the one to resume; nothing is sent.

        Raises:
            UsageError: settings, parameters or input are wrong; one line says what to do.
            JournalError: the journal cannot be used.
        """
        run = open_api_run(
            parameters,
            settings,
            flow=cls.flow,
            operation=cls.operation,
            identify=partial(cls.identify, settings=settings),
            clock=clock,
        )
        return cls(run, cast("P", run.parameters))

    def plan_calls(self) -> None:
        """Find the people to ask, and quote their calls."""
        self.recover()
        self.people = self.load_people()
        self.look_up(self.people)
        calls = len(self.due())
        self.run.quote = quote(self.run, self.operation, self.kind, calls)
        self.run.progress[self.operation].wanted = calls
        self.run.spent_before_micro = self.run.journal.money.of_run(self.run.run_id).spent_micro

    def reload(self) -> None:
        """Update people from the journal, after recovering calls whose process died."""
        self.recover()
        self.look_up(self.people)

    # --- asking ---

    def pending_people(self) -> list[T]:
        """Return the people whose call is still to be made, in order."""
        return [each for each in self.people if each.state == PENDING]

    def due(self) -> list[T]:
        """Return the pending people whose call was not tried in this session."""
        return [each for each in self.pending_people() if each.task is None]

    async def ask(self, caller: Caller) -> None:
        """Make every remaining call, until none is left or the run stops.

        People whom another process is asking are waited for: it may release them.

        Raises:
            NightscreenError: the journal could not be written.
        """
        in_flight = self.run.settings.max_in_flight[family_of(self.operation)]
        turns = asyncio.Semaphore(_TURNS_PER_CALL * in_flight)

        async def take_turn(person: T) -> bool:
            async with turns:
                return self._may_ask(caller) and await self.ask_person(caller, person)

        for first in self.due() if self.first_alone else ():
            await take_turn(first)
            if first.task is not None:
                break
        while (due := self.due()) and self._may_ask(caller):
            async with asyncio.TaskGroup() as group:
                asked = [group.create_task(take_turn(person)) for person in due]
            if any(each.result() for each in asked):
                continue
            if not caller.record_wait("calls that other processes make"):
                return
            await asyncio.sleep(_WAIT_S)
            await asyncio.to_thread(self.reload)

    def _may_ask(self, caller: Caller) -> bool:
        at = asyncio.get_running_loop().time()
        return not caller.short and self.run.stops.may_send(self.operation, self.run.clock(), at)

    def requeue_failed(self) -> None:
        """Make people whose call failed or was not made due again; not those in doubt."""
        statuses = []
        for each in self.people:
            if each.task is not None and each.state in {PENDING, FAILED}:
                statuses.append(each.task.status)
                each.state, each.task = PENDING, None
        self.run.progress[self.operation].take_back(statuses)

    # --- closing ---

    def _rows(self) -> dict[str, int]:
        read, refused = self.rows_read, self.rows_refused
        return {"read": read, "screened": read - refused, "quarantined": refused}

    def quoted(self) -> dict[str, Any]:
        """Return what the run would cost."""
        estimate = self.run.quote or Quote()
        return {
            "batch": self.run.batch,
            "purpose": self.run.purpose,
            "quoted": estimate.in_naira(),
            "hours": round(estimate.hours, 3),
            "rows": self._rows(),
            "calls": self.run.progress[self.operation].wanted,
            "cap": naira_text(self.run.caps.run_micro),
            "lines": estimate.line_documents(),
            **self.quoted_more(),
        }

    def close(self) -> dict[str, Any]:
        """Write files, calls, report and manifest, save the run's end; return the report.

        Everything is read from the journal, so that the report of a cancelled run is as complete as
        that of a finished one.
        """
        self.discard_secrets()
        self.reload()
        parts, run = self.write(), self.run
        end = RunEnd(run)
        calls = write_calls(run.folder, run.journal, run.run_id, run.declared)
        waiting = {each.subject for each in self.pending_people()}
        checks = {}
        for operation, made in _call_ends(run, self.operation, waiting).items():
            total = made.total()
            answers = parts.answers if operation == self.operation else {}
            counts = CheckCounts(
                lookups=total,
                distinct=total,
                rows_refused=answers.get(NoAnswer.REFUSED, 0),
                rows_ineligible=answers.get(NoAnswer.INELIGIBLE, 0),
                rows_invalid=answers.get(NoAnswer.INVALID, 0),
            )
            ended = lookup_counts(counts, made, test_mode=end.in_test)
            checks[operation.value] = check_report(
                counts, ended, calls.of(operation), answers=answers, asked=answers
            )
        report = {
            **end.head(),
            "flow": run.flow,
            "rows": self._rows(),
            "checks": checks,
            "cost": {**end.cost(calls), **parts.cost},
            "balance": calls.balance.document(calls.cost_micro),
            "exposure": {},
            "decisions": {},
            "changes": {},
            "notices": list(end.notices),
            "files": end.files(),
            **parts.more,
        }
        manifest = {
            "flow": run.flow,
            "input": {"digest": run.input_digest},
            "parameters": run.parameters.model_dump(exclude={"output", "run"}),
        }
        return end.finish(report, api_run_page(report), manifest)


# --- a record for each call ---


class RecordRun(PersonRun[P, T]):
    """A run that saves a journal record for each call before the call is sent."""

    model: ClassVar[type[JournalRecord]]
    under_way: ClassVar[str]  # a record's state while its call is made, or if its process died

    def __init__(self, run: Run, parameters: P) -> None:
        super().__init__(run, parameters)
        self.records: Records[Any] = Records(run.journal, self.model)

    @staticmethod
    @abstractmethod
    def made_by(record: Any) -> tuple[str, Operation]:  # noqa: ANN401 - of the model
        """Return the id of the run that makes a record's call, and the call's operation."""

    @staticmethod
    @abstractmethod
    def after(journal: Journal, end: CallEnd | None, record: Any) -> Any:  # noqa: ANN401 - of the model
        """Return a record as changed by its call, None to delete it.

        `end` is None if nothing was sent.
        """

    @classmethod
    def recover_dead_calls(cls, journal: Journal, run_id: str = "") -> None:
        """Update the records of calls whose process died, and of those of run `run_id`."""
        saved: Records[Any] = Records(journal, cls.model)
        for record in saved.all(state=cls.under_way):
            worker, operation = cls.made_by(record)
            run = journal.runs.find(worker)
            # a single call's name ends with `@` and the name of its process in the journal
            holder = worker.partition("@")[2]
            is_alive = journal.holders.alive(holder) if run is None else run.state == RUNNING
            if worker == run_id or not is_alive:
                end = _end_in_journal(journal, worker, operation, record.subject)
                saved.change(record.key, partial(cls.after, journal, end), journal.clock())

    def recover(self) -> None:
        """Recover dead calls, those of this run included."""
        self.recover_dead_calls(self.run.journal, self.run.run_id)

    def look_up(self, people: Sequence[T]) -> None:
        """Update people from their records in the journal."""
        newest = self.newest({each.customer for each in people})
        for each in people:
            self.apply_record(each, newest.get(each.customer))

    def newest(self, customers: Collection[bytes]) -> dict[bytes, Any]:
        """Return the newest record of each customer that has one."""
        return self.records.newest(customers)

    @abstractmethod
    def apply_record(self, person: T, record: Any) -> None:  # noqa: ANN401 - of the model
        """Set a person's newest record; if no call is to be made any more, change their state."""

    @abstractmethod
    def intent(self, person: T) -> Any:  # noqa: ANN401 - of the model
        """Return the record to save before a person's call; None if no call is to be made."""

    @abstractmethod
    def call(self, caller: Caller, person: T) -> LookupTask:
        """Return the call to make for a person."""

    async def ask_person(self, caller: Caller, person: T) -> bool:
        """Save the intent, make the call, and save its result."""
        if not await asyncio.to_thread(self.begin, person):
            return False
        if person.state == PENDING:
            person.task = await caller.make_call(self.call(caller, person))
            await asyncio.to_thread(self.save_result, person, person.task)
        return True

    def begin(self, person: T) -> bool:
        """Save the intent to ask a person; False if another process is asking them."""
        self.look_up([person])
        before = person.record
        if person.state != PENDING:
            return True
        if before is not None and before.searched_state == self.under_way:
            return False
        intent = self.intent(person)
        if intent is None:
            person.state = ""
            return True
        person.record = intent
        if before is not None and before.key == intent.key:
            return self.records.replace(intent, before, self.run.clock())
        return bool(self.records.add([intent]))

    def save_result(self, person: T, task: LookupTask) -> None:
        """Save the result of a call, and update the person's state."""
        end = _end_of(task, self.run.clock())
        after = partial(self.after, self.run.journal, end)
        record = self.records.change(person.record.key, after, self.run.clock())
        is_lost = end is not None and end.is_lost
        person.state = "" if is_lost else _STATES_WITHOUT_ANSWER.get(task.status, "")
        if record is None:  # deleted: an older one may count again
            self.look_up([person])
        else:
            self.apply_record(person, record)


# --- the driver ---


async def run_people(
    kind: type[PersonRun[P, Any]],
    parameters: P,
    settings: Settings,
    *,
    transport: Transport | None = None,
    clock: Clock = system_clock,
    runner: Runner | None = None,
) -> dict[str, Any]:
    """Run a flow of a kind and return its report, or only its quote if that was requested.

    Raises:
        UsageError: parameters, settings or input are wrong; a new run leaves no trace.
        JournalError: the journal cannot be used.
    """
    runner = runner or Runner()
    work = await asyncio.to_thread(kind.open, parameters, settings, clock=clock)
    run = work.run
    async with closing(run), runner.watching(run):
        try:
            await runner.step("take in", work.plan_calls)
            if run.only_quotes:
                return await asyncio.to_thread(work.quoted)
            if await runner.may_spend(run, await asyncio.to_thread(work.quoted)):
                async with runner.asking(work.close):
                    await _ask(work, runner, transport)
                run.refuse_wrong_address()
            report: dict[str, Any] = await runner.step("report", work.close)
            return report
        finally:
            work.discard_secrets()


async def _ask(work: PersonRun[Any, Any], runner: Runner, transport: Transport | None) -> None:
    """Make the calls, again after each stop that ends before the deadline."""
    while True:
        caller = Caller(run=work.run, transport=transport)
        async with runner.calling(caller):
            ask = partial(work.ask, caller)
            await runner.step(f"ask for {work.operation}", ask, re_entered=work.re_entered)
        if not await wait_and_resume(work.run, work.requeue_failed):
            return


@asynccontextmanager
async def single_call(
    settings: Settings,
    operation: Operation,
    *,
    clock: Clock = system_clock,
    transport: Transport | None = None,
) -> AsyncIterator[Caller]:
    """Yield a caller for a call that belongs to no run: a typed password, a list of products.

    Like every call it is saved in the journal before it is sent, retried by the response rules, and
    counted against every cap. It has no run record and no report.

    Raises:
        UsageError: the settings are wrong.
        JournalError: the journal cannot be used.
    """
    run = await asyncio.to_thread(
        open_api_run,
        ApiRunParameters(),
        settings,
        flow=operation.value,
        operation=operation,
        identify=lambda _: (operation.value, ""),
        clock=clock,
        is_recorded=False,
    )
    async with AsyncExitStack() as opened:
        opened.callback(run.close)
        caller = Caller(run=run, transport=transport)
        opened.push_async_callback(caller.close)
        yield caller


# --- results of calls ---


@dataclass(frozen=True, slots=True)
class CallEnd:
    """The end of a call, either just returned or read from the journal after its process died."""

    state: str  # its state in the journal (`CallState`)
    trouble: str | None = None  # why it has no answer; None if it has one
    cost_micro: int | None = None
    settled_at: int | None = None  # microseconds; None if it never settled
    body: bytes = field(default=b"", repr=False)  # the answer
    # the registered contact, masked, which the service shows when it refuses a BVN start
    contact: str | None = field(default=None, repr=False)

    @property
    def is_answered(self) -> bool:
        """Return whether the service answered."""
        return self.state == CallState.ANSWERED.value

    @property
    def is_lost(self) -> bool:
        """Return whether the call's effect is unknown."""
        return self.state in LOST


def _end_of(task: LookupTask, now: int) -> CallEnd | None:
    """Return the end of a call that has just returned; None if it was never sent.

    The journal knows a call by its subject alone, which two customers with one BVN share.
    """
    reading = task.reading
    if reading is None or task.status is LookupStatus.LAPSED:
        return None
    is_doubtful = task.status is LookupStatus.IN_DOUBT  # perhaps because of an earlier attempt
    state = CallState.IN_DOUBT if is_doubtful else CALL_STATES[reading.verdict]
    return CallEnd(
        state.value,
        None if reading.trouble is None else reading.trouble.value,
        reading.cost_micro,
        now,
        reading.body,
        reading.contact,
    )


def _end_in_journal(
    journal: Journal, run_id: str, operation: Operation, subject: bytes
) -> CallEnd | None:
    """Return how a run's calls about a subject ended; None if it made none."""
    last = journal.runs.decisive_call(run_id, operation, subject)
    if last is None:
        return None
    stored = journal.answers.latest(operation, [subject]).get(subject)
    is_of_run = stored is not None and stored.run_id == run_id
    body = journal.answers.body(operation, stored) if stored is not None and is_of_run else b""
    return CallEnd(last.state, last.trouble, last.cost_micro, last.settled_at, body)


def _call_ends(
    run: Run, operation: Operation, waiting: set[bytes]
) -> dict[Operation, Counter[LookupStatus]]:
    """Count how a run's calls ended, one result per subject, over all its sessions.

    None of the run's calls is in flight. `waiting` are the operation's subjects that are still to
    be asked about, whatever the result of earlier calls.
    """
    results: dict[tuple[str, bytes], LookupStatus] = {}
    for row in chain.from_iterable(run.journal.runs.calls(run.run_id)):
        if row.state == CallState.ANSWERED.value:
            end = LookupStatus.PAID if row.cost_micro else LookupStatus.FREE
        elif row.trouble in SAID_OF_CUSTOMER:
            end = LookupStatus.FREE
        elif row.state in LOST:
            end = LookupStatus.IN_DOUBT
        elif row.final:
            end = LookupStatus.FAILED
        else:  # another attempt follows
            continue
        key = row.check, bytes(row.subject)
        results[key] = min(results.get(key, end), end, key=_BEST_FIRST.index)
    ends = {operation: Counter({LookupStatus.WAITING: len(waiting)})}
    for (name, subject), end in results.items():
        if name != operation or subject not in waiting:
            ends.setdefault(Operation(name), Counter())[end] += 1
    return ends


_BEST_FIRST = (LookupStatus.PAID, LookupStatus.FREE, LookupStatus.IN_DOUBT, LookupStatus.FAILED)
"""Of several calls about a subject, the first of these results counts."""


# --- money and tables ---


def quote(run: Run, operation: Operation, kind: SubjectKind, calls: int) -> Quote:
    """Return what a number of calls would cost: at least nothing, at most each at the worst price.

    The expected cost is the latest known price of each.
    """
    if not calls:
        return Quote(cap_micro=run.caps.run_micro)
    latest, worst = known_prices(run.journal, run.settings)
    price = latest[operation.value]
    seconds = run.journal.runs.seconds_per_answer().get(operation.value, _SECONDS_PER_CALL)
    line = CheckQuote(
        check=operation.value,
        kind=kind.value,
        calls=calls,
        likely_calls=calls,
        price_micro=price,
        hit_pct=100.0,
        low_micro=0,
        expected_micro=calls * price,
        high_micro=calls * worst[operation.value],
        expected_s=calls * seconds / run.settings.max_in_flight[family_of(operation)],
    )
    return Quote((line,), cap_micro=run.caps.run_micro)


class OutputTable(Generic[X]):
    """A Parquet file's columns, each with its type and a function from an item to its value.

    Instants may be integers, microseconds.
    """

    def __init__(self, **columns: tuple[pa.DataType, Callable[[X], Any]]) -> None:
        self._columns = columns
        self.schema = pa.schema([pa.field(name, kind) for name, (kind, _) in columns.items()])

    def row(self, item: X) -> dict[str, Any]:
        """Return the row of one item."""
        return {name: value_of(item) for name, (_, value_of) in self._columns.items()}

    def table(self, items: Iterable[X]) -> pa.Table:
        """Return a row for each item."""
        return pa.Table.from_pylist([self.row(item) for item in items], self.schema)

    def write(self, folder: RunFolder, name: str, items: Iterable[X]) -> int:
        """Write a row for each item; return how many there are."""
        return write_rows(folder, name, map(self.row, items), self.schema)


def write_rows(
    folder: RunFolder, name: str, rows: Iterable[dict[str, Any]], schema: pa.Schema
) -> int:
    """Write rows as one Parquet file, a block at a time; return how many there are."""
    remaining = iter(rows)
    blocks = iter(lambda: list(islice(remaining, _BLOCK)), [])
    return folder.write_parquet(
        name, schema, (pa.Table.from_pylist(block, schema) for block in blocks)
    )
