"""Runs that ask person by person: opened, resumed, asked, asked again, and closed by one driver.

`run_people` is the whole of such a run, from top to bottom: the engine's flows, the command line
and tests all call it. What a flow asks, of whom, and what its files hold is its own kind of
`PersonRun`. A record of the journal is written before a person's call; what came of a call whose
process died is learnt from the journal of calls, by the method that reads a call that came back,
`RecordRun.after`.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import Counter
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
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
from nightscreen.runs.run import open_api_run
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
"""Words of every flow for whoever waits for a call, and for whoever's call surely did nothing."""
_WORDS = {
    LookupStatus.WAITING: PENDING,
    LookupStatus.FAILED: FAILED,
    LookupStatus.LAPSED: NoAnswer.REFUSED.value,
}
"""Of people after a call that came to nothing."""
LOST = frozenset({CallState.IN_DOUBT.value, CallState.INTENT.value, CallState.UNREADABLE.value})
"""States of a call of which nobody knows what it did, though an unreadable one is paid for."""

_TURNS_A_CALL = 2
"""People whose turn it is at once for each call in flight: one is asked, one is written down."""
_WAIT_S = 0.5  # how long to wait before looking again at people whom other processes ask
_SECONDS_A_CALL = 5.0
"""What a call takes as long as none was made yet: about what the service's calls take at night."""
_BLOCK = 4096  # rows made at once: bounds memory, however many there are

P = TypeVar("P", bound=ApiRunParameters)
X = TypeVar("X")


@dataclass(slots=True, kw_only=True)
class Person:
    """One person's turn in a run."""

    subject: bytes = field(default=b"", repr=False)  # pseudonym that the person's call is found by
    # how it stands, in the flow's own words; `PENDING` while there is a call to be made
    word: str = PENDING
    task: LookupTask | None = None  # the call that was made in this session


T = TypeVar("T", bound=Person)


class ReportParts(NamedTuple):
    """What a flow's report says beside its calls."""

    answers: Mapping[str, int]  # what the operation's calls came to, in the flow's own words
    more: Mapping[str, Any] = {}  # further parts of the report
    cost: Mapping[str, Any] = {}  # further parts of its part `cost`


class PersonRun(ABC, Generic[P, T]):
    """One run under way. A flow's own kind says who is asked, how, and what is reported.

    Where a record of the journal stands for each call, `RecordRun` writes and reads it.

    Attributes:
        people: whom the run is about, in their order.
        rows_read: rows of the input; of them `rows_refused` are in quarantine.
    """

    flow: ClassVar[str]  # the flow as the journal has it
    name: ClassVar[str]  # names the flow's runs in the engine
    batch: ClassVar[str] = ""  # what its nights are compared by, where its input does not say
    operation: ClassVar[Operation]  # what its calls are counted under
    kind: ClassVar[SubjectKind]  # what the subjects of its calls are pseudonyms of
    first_alone: ClassVar[bool] = (
        False  # where the key may not ask, the service hears of one person
    )
    re_entered: ClassVar[bool] = False  # a fault that nobody foresaw may be met by asking on

    def __init__(self, run: Run, parameters: P) -> None:
        self.run = run
        self.parameters = parameters
        self.people: list[T] = []
        self.rows_read = self.rows_refused = 0

    # --- what a flow's own kind says ---

    @classmethod
    def identify(cls, parameters: P, settings: Settings) -> tuple[str, str]:  # noqa: ARG003 - of a kind with an input
        """Return what the run's nights are compared by, and the digest of its input, if any.

        Raises:
            UsageError: parameters or input are wrong; nothing was written down yet.
        """
        return cls.batch, ""

    @abstractmethod
    def load_people(self) -> list[T]:
        """Read the input and return whom the run is about."""

    def reload(self) -> None:
        """Learn what came of calls whose process died, and bring people up to date with it."""

    @abstractmethod
    async def ask_person(self, caller: Caller, person: T) -> bool:
        """Ask one person and write down what came of it; False where another process asks them."""

    @abstractmethod
    def write(self) -> ReportParts:
        """Write the flow's own files, all from the journal; return what its report says."""

    def discard_secrets(self) -> None:
        """Delete what must not outlive the calls, such as passwords."""

    def quoted_more(self) -> dict[str, Any]:
        """Return what the quote says beside the money."""
        return {}

    # --- opening ---

    @classmethod
    def open(cls, parameters: P, settings: Settings, *, clock: Clock = system_clock) -> Self:
        """Open a run, or one to be resumed; nothing is sent.

        Raises:
            UsageError: settings, parameters or input are wrong, in one line that says what to do.
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
        """Find whom to ask, and quote the calls."""
        self.reload()
        self.people = self.load_people()
        self.reload()
        wanted = len(self.due())
        self.run.quote = quote(self.run, self.operation, self.kind, wanted)
        self.run.progress[self.operation].wanted = wanted
        self.run.spent_before_micro = self.run.journal.money.of_run(self.run.run_id).spent_micro

    # --- asking ---

    def pending_people(self) -> list[T]:
        """Return whose call is still to be made, in their order."""
        return [each for each in self.people if each.word == PENDING]

    def due(self) -> list[T]:
        """Return those of them whose call was not tried in this session."""
        return [each for each in self.pending_people() if each.task is None]

    async def ask(self, caller: Caller) -> None:
        """Make every call that is left, until none is or something stops the run.

        Whoever is asked by another process is waited for: it may yet give them back.

        Raises:
            NightscreenError: the journal could not be written.
        """
        in_flight = self.run.settings.max_in_flight[family_of(self.operation)]
        turns = asyncio.Semaphore(_TURNS_A_CALL * in_flight)

        async def one(person: T) -> bool:
            async with turns:
                return self._may_ask(caller) and await self.ask_person(caller, person)

        for first in self.due() if self.first_alone else ():
            await one(first)
            if first.task is not None:
                break
        while (due := self.due()) and self._may_ask(caller):
            async with asyncio.TaskGroup() as group:
                had = [group.create_task(one(person)) for person in due]
            if any(each.result() for each in had):
                continue
            if not caller.record_wait("calls that other processes make"):
                return
            await asyncio.sleep(_WAIT_S)
            await asyncio.to_thread(self.reload)

    def _may_ask(self, caller: Caller) -> bool:
        at = asyncio.get_running_loop().time()
        return not caller.short and self.run.stops.may_send(self.operation, self.run.clock(), at)

    def requeue_failed(self) -> None:
        """Let people whose call failed or was not made be asked; one in doubt is not."""
        lost = []
        for each in self.people:
            if each.task is not None and each.word in {PENDING, FAILED}:
                lost.append(each.task.status)
                each.word, each.task = PENDING, None
        self.run.progress[self.operation].take_back(lost)

    # --- closing ---

    def _rows(self) -> dict[str, int]:
        read, refused = self.rows_read, self.rows_refused
        return {"read": read, "screened": read - refused, "quarantined": refused}

    def quoted(self) -> dict[str, Any]:
        """Return what the run would cost; nothing of it stays."""
        self.discard_secrets()
        found = self.run.quote or Quote()
        return {
            "quoted": found.in_naira(),
            "hours": round(found.hours, 3),
            "rows": self._rows(),
            "calls": self.run.progress[self.operation].wanted,
            "cap": naira_text(self.run.caps.run_micro),
            **self.quoted_more(),
        }

    def close(self) -> dict[str, Any]:
        """Write files, calls, report and manifest, note the run's end; return the report.

        All of it is made from the journal, so that a run that was cancelled is closed as honestly
        as one that went through.
        """
        self.discard_secrets()
        self.reload()
        parts, run = self.write(), self.run
        end = RunEnd(run)
        calls = write_calls(run.folder, run.journal, run.run_id, run.declared)
        waiting = {each.subject for each in self.pending_people()}
        checks = {}
        for operation, made in _call_ends(run, self.operation, waiting).items():
            wanted = made.total()
            answers = parts.answers if operation == self.operation else {}
            counts = CheckCounts(lookups=wanted, distinct=wanted)
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


@dataclass(slots=True, kw_only=True)
class Recorded(Person):
    """A person for whose call a record stands: the one that counts for them now, if any."""

    customer: bytes = field(default=b"", repr=False)
    record: Any = field(default=None, repr=False)


S = TypeVar("S", bound=Recorded)


class RecordRun(PersonRun[P, S]):
    """A run in which a record stands for each call, written down before the call is sent."""

    model: ClassVar[type[JournalRecord]]
    under_way: ClassVar[str]  # how a record stands while its call is made, or as its process died

    def __init__(self, run: Run, parameters: P) -> None:
        super().__init__(run, parameters)
        self.kept: Records[Any] = Records(run.journal, self.model)

    @staticmethod
    @abstractmethod
    def made_by(record: Any) -> tuple[str, Operation]:  # noqa: ANN401 - of the model
        """Return the run that makes the call of a record, and which call it is."""

    @staticmethod
    @abstractmethod
    def after(journal: Journal, end: CallEnd | None, record: Any) -> Any:  # noqa: ANN401 - of the model
        """Return a record as it is after its call, None where it is to be forgotten.

        No end: nothing was sent for it.
        """

    @classmethod
    def learn_dead(cls, journal: Journal, run_id: str = "") -> None:
        """Learn what came of calls whose process died, and of those of a run that is closed."""
        kept: Records[Any] = Records(journal, cls.model)
        for record in kept.all(state=cls.under_way):
            worker, operation = cls.made_by(record)
            if worker == run_id or not is_under_way(journal, worker):
                end = _end_in_journal(journal, worker, operation, record.subject)
                kept.change(record.key, partial(cls.after, journal, end), journal.clock())

    def reload(self) -> None:
        """Learn what came of calls whose process died, and of those of this run."""
        self.learn_dead(self.run.journal, self.run.run_id)
        self.look_up(self.people)

    def look_up(self, people: Sequence[S]) -> None:
        """Bring people up to date with their records in the journal."""
        newest = self.newest({each.customer for each in people})
        for each in people:
            self.apply_record(each, newest.get(each.customer))

    def newest(self, customers: Collection[bytes]) -> dict[bytes, Any]:
        """Return the newest record of each customer that has one."""
        return self.kept.newest(customers)

    @abstractmethod
    def apply_record(self, person: S, record: Any) -> None:  # noqa: ANN401 - of the model
        """Take a person's newest record; who is not to be asked any more gets another word."""

    @abstractmethod
    def intent(self, person: S) -> Any:  # noqa: ANN401 - of the model
        """Return a person's record as it is while the call is made; None: no call is to be made."""

    @abstractmethod
    def call(self, caller: Caller, person: S) -> LookupTask:
        """Return the call to be made for a person."""

    async def ask_person(self, caller: Caller, person: S) -> bool:
        """Write the intent down, make the call, and write down what came of it."""
        if not await asyncio.to_thread(self.begin, person):
            return False
        if person.word == PENDING:
            person.task = await caller.make_call(self.call(caller, person))
            await asyncio.to_thread(self.save_result, person, person.task)
        return True

    def begin(self, person: S) -> bool:
        """Write the intent to ask a person down; False where another process asks them now."""
        self.look_up([person])
        before = person.record
        if person.word != PENDING:
            return True
        if before is not None and before.searched_state == self.under_way:
            return False
        intent = self.intent(person)
        if intent is None:
            person.word = ""
            return True
        person.record = intent
        if before is not None and before.key == intent.key:
            return self.kept.replace(intent, before, self.run.clock())
        return bool(self.kept.add([intent]))

    def save_result(self, person: S, task: LookupTask) -> None:
        """Write down what came of a call, and what it makes of the person."""
        end = _end_of(task, self.run.clock())
        after = partial(self.after, self.run.journal, end)
        record = self.kept.change(person.record.key, after, self.run.clock())
        is_lost = end is not None and end.is_lost
        person.word = "" if is_lost else _WORDS.get(task.status, "")
        self.apply_record(person, record)


# --- the way of a run ---


async def run_people(
    kind: type[PersonRun[P, Any]],
    parameters: P,
    settings: Settings,
    *,
    transport: Transport | None = None,
    clock: Clock = system_clock,
    runner: Runner | None = None,
) -> dict[str, Any]:
    """Make a run of a kind and return its report, or its quote where no more is wanted.

    Raises:
        UsageError: parameters, settings or input are wrong; nothing is left of a new run.
        JournalError: the journal cannot be used.
    """
    runner = runner or Runner()
    work = await runner.open(partial(kind.open, parameters, settings, clock=clock))
    run = work.run
    async with closing(run), runner.watching(run):
        try:
            await runner.step("take in", work.plan_calls)
            if run.only_quotes:
                return await asyncio.to_thread(work.quoted)
            async with runner.asking(work.close):
                while True:  # once more after each stop that passes before the deadline
                    caller = Caller(run=run, transport=transport)
                    async with runner.calling(caller):
                        ask = partial(work.ask, caller)
                        await runner.step(
                            f"ask for {work.operation}", ask, re_entered=work.re_entered
                        )
                    if not await wait_and_resume(run, work.requeue_failed):
                        break
            run.refuse_wrong_address()
            report: dict[str, Any] = await runner.step("report", work.close)
            return report
        finally:
            work.discard_secrets()


@asynccontextmanager
async def single_call(
    settings: Settings,
    operation: Operation,
    *,
    clock: Clock = system_clock,
    transport: Transport | None = None,
) -> AsyncIterator[Caller]:
    """Give what makes a call that belongs to no run: a typed password, a list of products.

    It is written into the journal before it is sent, retried by the one table, and counts under
    every cap; there is no run and no report of it.

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


# --- what came of calls ---


@dataclass(frozen=True, slots=True)
class CallEnd:
    """How a call ended, be it one that came back now or one whose process died."""

    state: str  # its state in the journal (`CallState`)
    trouble: str | None = None  # why it has no answer; None where it has one
    cost_micro: int | None = None
    # when that was known, microseconds; None of one that never settled
    settled_at: int | None = None
    body: bytes = field(default=b"", repr=False)  # what was answered
    # the masked contact that a refused BVN start shows as the registered one
    contact: str | None = field(default=None, repr=False)

    @property
    def is_answered(self) -> bool:
        """Return whether the service answered."""
        return self.state == CallState.ANSWERED.value

    @property
    def is_lost(self) -> bool:
        """Return whether nobody knows what the call did."""
        return self.state in LOST


def _end_of(task: LookupTask, now: int) -> CallEnd | None:
    """Return how a call that has just come back ended; None if it was never sent."""
    reading = task.reading
    if reading is None or task.status is LookupStatus.LAPSED:
        return None
    is_doubtful = task.status is LookupStatus.IN_DOUBT  # by an earlier attempt, it may be
    state = CallState.IN_DOUBT if is_doubtful else CALL_STATES[reading.verdict]
    return CallEnd(
        state.value,
        None if reading.trouble is None else reading.trouble.value,
        reading.cost_micro,
        now,
        reading.body,
        reading.contact,
    )


def is_under_way(journal: Journal, run_id: str) -> bool:
    """Return whether a run is under way, or the process whose single call has this name lives."""
    run = journal.runs.find(run_id)
    if run is not None:
        return run.state == RUNNING
    return journal.holders.alive(run_id.partition("@")[2])


def _end_in_journal(
    journal: Journal, run_id: str, operation: Operation, subject: bytes
) -> CallEnd | None:
    """Return how a run's calls about a subject ended; None where it made none."""
    last = journal.runs.decisive_call(run_id, operation, subject)
    if last is None:
        return None
    stored = journal.answers.latest(operation, [subject]).get(subject)
    is_its_own = stored is not None and stored.run_id == run_id
    body = journal.answers.body(operation, stored) if stored is not None and is_its_own else b""
    return CallEnd(last.state, last.trouble, last.cost_micro, last.settled_at, body)


def _call_ends(
    run: Run, operation: Operation, waiting: set[bytes]
) -> dict[Operation, Counter[LookupStatus]]:
    """Return how the questions of a run ended, over all its sessions, as the journal has it.

    Nothing of the run is in flight; `waiting` are the subjects that are still to be asked about by
    the operation, whatever came of earlier calls.
    """
    found: dict[tuple[str, bytes], LookupStatus] = {}
    for row in chain.from_iterable(run.journal.runs.calls(run.run_id)):
        if row.state == CallState.ANSWERED.value:
            end = LookupStatus.PAID if row.cost_micro else LookupStatus.FREE
        elif row.trouble in SAID_OF_CUSTOMER:
            end = LookupStatus.FREE
        elif row.state in LOST:
            end = LookupStatus.IN_DOUBT
        elif row.final:
            end = LookupStatus.FAILED
        else:  # it ended nothing
            continue
        key = row.check, bytes(row.subject)
        found[key] = min(end, found.get(key, end), key=_TELLING_MOST.index)
    ends = {operation: Counter({LookupStatus.WAITING: len(waiting)})}
    for (name, subject), end in found.items():
        if name != operation or subject not in waiting:
            ends.setdefault(Operation(name), Counter())[end] += 1
    return ends


_TELLING_MOST = (
    *(LookupStatus.PAID, LookupStatus.FREE),
    *(LookupStatus.IN_DOUBT, LookupStatus.FAILED),
)
"""How one of several calls about a subject ended counts, the first of these that is there."""


# --- money and tables ---


def quote(run: Run, operation: Operation, kind: SubjectKind, calls: int) -> Quote:
    """Return what a number of calls would cost: nothing at the least, each charged at the most."""
    if not calls:
        return Quote(cap_micro=run.caps.run_micro)
    latest, worst = known_prices(run.journal, run.settings)
    price = latest[operation.value]
    seconds = run.journal.runs.seconds_per_answer().get(operation.value, _SECONDS_A_CALL)
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
    """A Parquet file of a run: each column is declared once, with its type and what it shows.

    Instants may be microseconds.
    """

    def __init__(self, **columns: tuple[pa.DataType, Callable[[X], Any]]) -> None:
        self._columns = columns
        self.schema = pa.schema([pa.field(name, kind) for name, (kind, _) in columns.items()])

    def row(self, each: X) -> dict[str, Any]:
        """Return the row of one thing."""
        return {name: shown(each) for name, (_, shown) in self._columns.items()}

    def table(self, things: Iterable[X]) -> pa.Table:
        """Return a row for each thing."""
        return pa.Table.from_pylist([self.row(each) for each in things], self.schema)

    def write(self, folder: RunFolder, name: str, things: Iterable[X]) -> int:
        """Write a row for each thing; return their number."""
        return write_rows(folder, name, map(self.row, things), self.schema)


def write_rows(
    folder: RunFolder, name: str, rows: Iterable[dict[str, Any]], schema: pa.Schema
) -> int:
    """Write rows as one Parquet file of a schema, a block at a time; return their number."""
    left = iter(rows)
    blocks = iter(lambda: list(islice(left, _BLOCK)), [])
    return folder.write_parquet(
        name, schema, (pa.Table.from_pylist(block, schema) for block in blocks)
    )
