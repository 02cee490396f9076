"""A part of a run: a process that takes shards of the run's lookups and asks them.

It opens the journal, the shared place and windows of its own, and nothing else: what is asked, in
which order, for how much and until when was settled by the run's own process, which also tells the
end (`coordinator`). Starting processes belongs to the engine.
"""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from nightscreen.calling.control import CheckProgress, Control, StopReason
from nightscreen.calling.detectors import Silence
from nightscreen.calling.funding_rounds import open_rounds
from nightscreen.calling.shards import ShardLayout, SparingOfShards
from nightscreen.calling.worker_stats import numbers_of
from nightscreen.client.response_rules import load_response_rules
from nightscreen.config.parameters import ScreenBatch
from nightscreen.config.settings import max_ages, overridden
from nightscreen.files.outputs import RunFolder
from nightscreen.files.workspace import Workspace
from nightscreen.journal.work_queue import WHOLE_RUN, SharedWork
from nightscreen.planning.freshness import Freshness
from nightscreen.planning.plan import Wanted
from nightscreen.policy.loading import load_policy
from nightscreen.runs.run import (
    caps_of,
    collect_seldom,
    note_unreadable,
    open_journal,
    price_list_of,
    require_service,
)
from nightscreen.runs.screening_run import ScreeningRun
from nightscreen.schemas.calls import Caps
from nightscreen.schemas.checks import DEFAULT_KARMA_IDENTITIES, IdentityKind, Purpose
from nightscreen.schemas.clock import Clock, system_clock
from nightscreen.schemas.errors import JournalError, OutputError
from nightscreen.schemas.plan import LookupStatus

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Mapping

    from numpy.typing import NDArray

    from nightscreen.calling.funding_rounds import FundingRounds
    from nightscreen.client.transport import Transport
    from nightscreen.config.settings import Settings
    from nightscreen.journal import Journal
    from nightscreen.journal.runs import RunRecord

    Ask = Callable[[str, str], Awaitable[Any]]

POLL_S = 0.5
AT_ONCE = 2
"""Shards of one check that a part has in hand, so that its window never runs dry between two."""
TERMS = "terms"
ENDED = pa.schema(
    [
        pa.field("index", pa.int64()),
        pa.field("standing", pa.int8()),
        pa.field("attempts", pa.int16()),
        pa.field("listed", pa.bool_()),
    ]
)
"""What became of a shard's lookups."""


@dataclass(slots=True)
class WorkerPart:
    """One part under way.

    Attributes:
        run: the run as a part sees it: its lookups, caps and stops, no rows and no output.
        space: the place shared with the other processes of the run.
        taken: lookups of the shards in hand, by shard.
        wanted: False once the run does not want this part any more.
        leaves: this process was told to end, and hands back what it has in hand.
        reported: stops that came from outside, or were passed on, by scope.
        offer: number of the latest offer that a shard was taken of.
        turn: held by who looks for a shard, so that one looks at a time.
    """

    run: ScreeningRun
    number: int
    space: Workspace
    work: SharedWork
    rounds: FundingRounds | None = None
    taken: dict[str, NDArray[np.int64]] = field(default_factory=dict)
    wanted: bool = True
    leaves: bool = False
    reported: set[str] = field(default_factory=set)
    offer: int = 0
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    def close(self) -> None:
        """Report what was done and met, hand back what is in hand, and give back the journal."""
        try:
            stops = {} if self.leaves else unreported_stops(self.run.control, self.reported)
            for scope, reason in stops.items():  # met since the last exchange
                self.work.stop(self.run.run_id, scope, reason)
            ended = not self.leaves and self.is_over
            self.work.leave(self.run.run_id, numbers_of(self.run.control), ended=ended)
        finally:
            self.run.close()

    def open_rounds(self, *, transport: Transport | None = None) -> FundingRounds:
        """Open the client and the windows.

        Args:
            transport: carries calls in place of sockets.
        """
        self.rounds = open_rounds(
            self.run,
            transport=transport,
            layout=ShardLayout(self.space, self.run.settings.shard_rows),
            sparing=SparingOfShards(),
        )
        return self.rounds

    @property
    def is_over(self) -> bool:
        """Return whether there is nothing left to take."""
        return not self.wanted or self.leaves or self.run.control.stop is not None


def open_part(
    run_id: str, number: int, settings: Settings, *, clock: Clock = system_clock
) -> WorkerPart | None:
    """Take up a part of a run; None where it is not wanted any more, or another has it.

    Raises:
        SettingsError: this machine lacks the service's address or key.
        JournalError: the journal of this machine does not know the run.
        OutputError: the shared place cannot be reached.
    """
    require_service(settings, quote_only=False)
    with ExitStack() as opened:
        collect_seldom(opened)
        part = _open(run_id, number, settings, open_journal(settings, opened, clock))
        if part is not None:
            part.run.on_close = opened.pop_all()
        return part


def _open(run_id: str, number: int, settings: Settings, journal: Journal) -> WorkerPart | None:
    run = journal.runs.find(run_id)
    if run is None:
        raise JournalError(
            f"the journal of this machine does not know run {run_id}: machines that share a run "
            "need one journal, on PostgreSQL (NIGHTSCREEN_JOURNAL_URL), or on one machine one HOME"
        )
    work = SharedWork.of(journal)
    session = work.join(run_id, number)
    if session is None:
        return None
    shared = settings.shared or str(settings.home)
    space = Workspace.shared(shared, journal.journal_id, session, journal.sealer)
    if not space.has_note(TERMS):
        if not work.report(run_id, {}):  # all was asked meanwhile, and the place was cleared
            return None
        raise OutputError(
            f"this machine does not see what run {run_id} shares with its parts: set "
            "NIGHTSCREEN_SHARED to the same place on every machine"
        )
    return WorkerPart(_run_of_part(run, settings, journal, space), number, space, work)


def _run_of_part(
    run: RunRecord, settings: Settings, journal: Journal, space: Workspace
) -> ScreeningRun:
    """Return the run as a part sees it."""
    terms = space.noted(TERMS)
    parameters = ScreenBatch.model_validate(run.parameters)
    purpose = Purpose(parameters.purpose)
    kinds = tuple(IdentityKind(kind) for kind in parameters.karma_identities)
    checks = tuple(each for each in dict.fromkeys(parameters.checks))
    wanted = Wanted(checks, kinds or DEFAULT_KARMA_IDENTITIES[purpose], purpose, run.run_id)
    control = Control(
        deadline_at=terms["deadline_at"],
        balance_floor_micro=terms["floor_micro"],
        silence=Silence(settings.outage_give_up.total_seconds()),
        progress={check: CheckProgress() for check in checks},
        price_list=price_list_of(settings),
    )
    note_unreadable(control, journal)
    needed = terms["needed"]
    return ScreeningRun(
        run_id=run.run_id,
        parameters=parameters,
        settings=settings,
        wanted=wanted,
        batch=run.batch,
        input=Path(parameters.input),
        input_name=Path(parameters.input).name,
        input_digest=run.input_digest,
        mapping=None,
        flow=run.flow,
        purpose=run.purpose,
        journal=journal,
        workspace=space,
        folder=RunFolder(Path(run.folder)),
        control=control,
        started_at=run.started_at,
        freshness=Freshness(
            max_ages(purpose, overridden(settings.freshness, parameters.freshness)),
            terms["fresh_at"],
            terms["since"],
        ),
        caps=caps_of(parameters, settings),
        policy=load_policy(None),
        response_rules=load_response_rules(settings.own_table("manners")),
        is_new=False,
        worst=np.zeros(needed, np.int64),
        status=np.zeros(needed, np.int8),
        listed=np.zeros(needed, dtype=bool),
    )


def caps_document(caps: Caps) -> dict[str, Any]:
    """Return caps as a document."""
    return asdict(caps)


def caps_of_document(document: Mapping[str, Any]) -> Caps:
    """Return the caps of a document."""
    names = ("day_calls", "price_limits", "in_flight")
    pairs = {name: tuple((check, most) for check, most in document[name]) for name in names}
    return Caps(**{**document, **pairs})


def offer_of(name: str) -> int:
    """Return the number of the offer that a shard is of."""
    return int(name.split("-")[2])


def terms_of(name: str) -> str:
    """Return the name of the note that holds the terms a shard was offered on."""
    return f"{TERMS}-{offer_of(name)}"


# --- shards ---


async def ask_shards(part: WorkerPart, check: str, ask: Ask) -> None:
    """Take shards of a check and have them asked, until the run has no more."""
    async with asyncio.TaskGroup() as group:
        for _ in range(AT_ONCE):
            group.create_task(_ask_in_turn(part, check, ask))


async def _ask_in_turn(part: WorkerPart, check: str, ask: Ask) -> None:
    while (name := await _next_shard(part, check)) is not None:
        await ask(check, name)
        await exchange(part)  # what was met goes before: the run may go on once the shard is done
        if part.leaves or not part.wanted:
            return
        await asyncio.to_thread(_hand_in, part, name)


async def _next_shard(part: WorkerPart, check: str) -> str | None:
    """Wait for a shard of a check; None where there will be none."""
    while not part.is_over:
        async with part.turn:
            name = await asyncio.to_thread(part.work.take, part.run.run_id, check)
        if name is not None:
            await asyncio.to_thread(_take_up, part, name)
            return name
        await asyncio.sleep(POLL_S)
    return None


def _take_up(part: WorkerPart, name: str) -> None:
    """Read what a shard is asked under."""
    run, rounds = part.run, part.rounds
    if rounds is None:
        raise JournalError(f"shard {name} of run {run.run_id} was taken before asking began")
    table = part.space.get(name)
    indexes = table["index"].to_numpy()
    run.worst[indexes] = table["worst"].to_numpy()
    run.status[indexes] = LookupStatus.WAITING.value
    rounds.attempts[indexes] = 0
    part.taken[name] = indexes
    offer = offer_of(name)
    if offer > part.offer:  # a shard of an earlier one may come back from a part that was lost
        noted = part.space.noted(terms_of(name))
        rounds.session.writer.caps = run.caps = caps_of_document(noted["caps"])
        part.offer = offer
        run.control.price_limits = dict(run.caps.price_limits)
        highest = run.control.highest_micro
        for word, price in noted["highest_micro"].items():
            highest[word] = max(highest.get(word, 0), price)
    if noted_chains := _chains(part, name):
        sparing = rounds.sparing
        if isinstance(sparing, SparingOfShards):
            sparing.add(noted_chains)


def _chains(part: WorkerPart, name: str) -> pa.Table | None:
    """Return the chains that came with a shard, None where nothing waits for anything."""
    if not part.run.parameters.karma_stop_at_first or "-karma-" not in name:
        return None
    return part.space.get(f"chains-{name}")


def _hand_in(part: WorkerPart, name: str) -> None:
    """Write down what became of a shard's lookups."""
    put_ended(part.space, name, part.taken.pop(name), part.run, part.rounds)
    part.work.done(part.run.run_id, name)


def put_ended(
    space: Workspace,
    name: str,
    indexes: NDArray[np.int64],
    run: ScreeningRun,
    rounds: FundingRounds | None,
) -> None:
    """Leave what became of a shard's lookups at the shared place."""
    attempts = np.zeros(len(indexes), np.int16) if rounds is None else rounds.attempts[indexes]
    ends = (indexes, run.status[indexes], attempts, run.listed[indexes])
    space.put(f"ended-{name}", pa.table([pa.array(each) for each in ends], schema=ENDED))


# --- what the run and its parts tell each other ---


async def exchange(part: WorkerPart) -> None:
    """Tell once how far this part has come, and hear whether the run goes on."""
    control = part.run.control
    mine = {} if part.leaves else unreported_stops(control, part.reported)
    part.reported.update(mine)
    stops, wanted = await asyncio.to_thread(_exchange, part, mine, numbers_of(control))
    part.wanted = part.wanted and wanted
    obey(control, stops, part.reported)
    if not part.wanted:
        part.reported.add(WHOLE_RUN)
        control.stop_run(StopReason.CANCELLED)


def unreported_stops(control: Control, reported: Collection[str]) -> dict[str, str]:
    """Return the stops of a process that the others do not know of yet, by scope."""
    found: dict[str, str] = dict(control.stopped_checks.items())
    if control.stop is not None:
        found[WHOLE_RUN] = control.stop
    return {scope: why for scope, why in found.items() if scope not in reported}


def obey(control: Control, stops: Mapping[str, str], reported: set[str]) -> None:
    """Stop what other processes have stopped, and take note that they know."""
    for scope, reason in stops.items():
        reported.add(scope)
        if scope == WHOLE_RUN:
            control.stop_run(reason)
        elif scope not in control.stopped_checks:
            control.stop_check(scope, reason)


def _exchange(
    part: WorkerPart, mine: Mapping[str, str], numbers: Mapping[str, Any]
) -> tuple[dict[str, str], bool]:
    run_id = part.run.run_id
    for scope, reason in mine.items():
        part.work.stop(run_id, scope, reason)
    wanted = part.work.report(run_id, numbers)
    wanted = wanted and part.run.journal.runs.held_elsewhere(run_id)
    return part.work.stops(run_id), wanted
