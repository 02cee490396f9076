"""Gathering: the run's own process offers shards to its parts and gathers what becomes of them.

It alone takes the opening and closing balance, funds, and counts. There are no rounds: as soon as
what was asked leaves money for more, more is offered. What is too little to be shared, it asks
itself. A part is lost as soon as the lock of its process is free, whatever the engine says of it:
its shards are then taken by others, and it is started again. Where nobody takes part at all, the
run's own process asks. What a part does is in `worker`; how it is started is the engine's (`Crew`).
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import numpy as np

from nightscreen.calling.control import StopReason
from nightscreen.calling.funding_rounds import affordable, next_offer
from nightscreen.calling.shards import LEAST_ROWS, ShardLayout
from nightscreen.calling.worker import (
    TERMS,
    caps_document,
    obey,
    put_ended,
    terms_of,
    unreported_stops,
)
from nightscreen.calling.worker_stats import Totals
from nightscreen.files.workspace import Workspace, sweep_shared
from nightscreen.journal import journal_of
from nightscreen.journal.work_queue import ASKING, CALLED, SharedWork
from nightscreen.schemas.checks import Outcome
from nightscreen.schemas.plan import LookupStatus

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from nightscreen.calling.funding_rounds import FundingRounds
    from nightscreen.calling.worker import Ask
    from nightscreen.config.parameters import ScreenBatch
    from nightscreen.config.settings import Settings
    from nightscreen.journal.work_queue import PartState, ShardState, WorkState
    from nightscreen.runs.screening_run import ScreeningRun

POLL_S = 0.5
LEAST_LOOKUPS = 100
"""Lookups a worker below which starting processes would take longer than asking does."""
MOST_STARTS = 4
"""How often one part is started before it is given up."""
ALONE_AFTER_S = 120.0
"""Time without any living part after which the run's own process asks as well."""
LET_GO_S = 20.0
"""How long parts have to settle where the run's own process is cancelled."""
BALANCE_MARGIN = 2
"""How often a full cap of every check may have been charged between two looks at the balance."""


class Crew(Protocol):
    """Starts parts, and knows what the engine says of them."""

    async def start(self, part: int) -> None:
        """Start a part."""

    async def came_to_nothing(self, part: int) -> bool:
        """Return whether what was started for a part has ended, as far as the engine knows."""


@dataclass(slots=True)
class Gathering:
    """One session of asking with several workers.

    Attributes:
        run: the run.
        rounds: what the run's own process has open.
        session: names this session and the place it shares with its parts.
        space: that place.
        crew: starts parts.
        ask: asks one shard in the run's own process.
        starts: how often each part was started.
        gathered: shards on offer whose ends are known.
        reported: scopes whose stop the parts know of.
        alone: what this process asks itself, by check.
        last_sign: when a part was last seen alive, on the loop's clock.
        done: lookups that had come to an end at the last look.
    """

    run: ScreeningRun
    rounds: FundingRounds
    session: str
    space: Workspace
    work: SharedWork
    crew: Crew
    ask: Ask
    totals: Totals = field(default_factory=Totals)
    starts: dict[int, int] = field(default_factory=dict)
    gathered: set[str] = field(default_factory=set)
    reported: set[str] = field(default_factory=set)
    alone: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    last_sign: float | None = None
    done: int = 0


def workers_wanted(parameters: ScreenBatch, settings: Settings) -> int:
    """Return how many workers a run is to have: as it is told now, or was reported when begun."""
    if not parameters.run or "workers" in parameters.model_fields_set:
        return parameters.workers
    with journal_of(settings) as journal:
        earlier = journal.runs.find(parameters.run)
    return parameters.workers if earlier is None else int(earlier.parameters.get("workers", 1))


def is_worth_it(rounds: FundingRounds) -> bool:
    """Return whether a run has several workers, and enough for them to ask and to pay for."""
    run = rounds.run
    workers = run.parameters.workers
    if workers == 1 or run.control.stop is not None:
        return False
    waiting = int((run.status == LookupStatus.WAITING.value).sum())
    return waiting >= LEAST_LOOKUPS * workers and affordable(rounds) >= LEAST_ROWS * workers


def open_gathering(rounds: FundingRounds, number: int, crew: Crew, ask: Ask) -> Gathering:
    """Call the parts of a run to a session of calls.

    Args:
        rounds: what the run's own process has open.
        number: the how-manieth session of this process.
        crew: starts parts.
        ask: asks one shard in this process.

    Raises:
        OutputError: the shared place cannot be made or reached.
    """
    run = rounds.run
    holders = run.journal.holders
    shared = run.settings.shared or str(run.settings.home)
    sweep_shared(shared, run.journal.journal_id, holders.alive)
    session = f"{run.run_id}.{number}@{holders.name}"
    space = Workspace.shared(shared, run.journal.journal_id, session, run.journal.sealer)
    work = SharedWork.of(run.journal)
    floor = run.control.balance_floor_micro
    space.note(
        TERMS,
        {
            "needed": len(run.status),
            "fresh_at": run.freshness.at,
            "since": run.freshness.since,
            "deadline_at": run.control.deadline_at,
            "floor_micro": None if floor is None else floor + _in_flight_micro(run),
        },
    )
    workers = run.parameters.workers
    work.begin(run.run_id, session, workers)
    rounds.layout = ShardLayout(space, run.settings.shard_rows, workers, run.chains)
    return Gathering(run, rounds, session, space, work, crew, ask)


def _in_flight_micro(run: ScreeningRun) -> int:
    """Return what others may have charged before a part hears of it from the balance."""
    caps = run.settings.max_in_flight
    total = 0
    for check in run.wanted.checks:
        mine = run.worst[run.ranked.is_of(check)]
        dearest = int(mine.max()) if len(mine) else 0
        total += BALANCE_MARGIN * getattr(caps, check) * dearest
    return total


# --- offers ---


async def ask_parts(gathering: Gathering) -> None:
    """Offer the parts what the money pays for, and gather what becomes of it, until no more is."""
    try:
        while True:
            state = await look(gathering)
            if not await asyncio.to_thread(_offer, gathering) and _is_over(gathering, state):
                return
            await _bring_back_lost(gathering, state)
            for task in gathering.alone.values():
                if task.done():
                    task.result()  # a fault of it is the run's: nobody else would see it
            _help_out(gathering, state)
            await asyncio.sleep(POLL_S)
    finally:
        for task in gathering.alone.values():
            task.cancel()
        gathering.alone.clear()


def _offer(gathering: Gathering) -> bool:
    """Offer what the money pays for by now; return whether there was anything."""
    run, rounds = gathering.run, gathering.rounds
    shards = next_offer(rounds)
    names = [(name, check) for check, each in shards.items() for name in each]
    if not names:
        return False
    caps = caps_document(rounds.session.writer.caps)
    highest = dict(run.control.highest_micro.items())
    gathering.space.note(terms_of(names[0][0]), {"caps": caps, "highest_micro": highest})
    gathering.work.lay_out(run.run_id, names, gathered=gathering.gathered)
    gathering.gathered.clear()
    return True


async def look(gathering: Gathering) -> WorkState:
    """Look at the parts once: pass stops on, add their numbers up, gather what was asked."""
    run, control = gathering.run, gathering.run.control
    mine = unreported_stops(control, gathering.reported)
    gathering.reported.update(mine)
    state = await asyncio.to_thread(_exchange, gathering, mine)
    obey(control, state.stops, gathering.reported)
    for part in state.parts:
        if part.holder is not None:
            gathering.totals.take(control, part.holder, part.numbers)
    living = [part.holder for part in state.parts if part.holder and part.alive]
    gathering.totals.of_the_moment(control, living)
    for shard in state.shards:
        if shard.done and shard.name not in gathering.gathered:
            ends = await asyncio.to_thread(_read_ends, gathering, shard)
            _gather(gathering, *ends)
            gathering.gathered.add(shard.name)
    if control.deadline_at is not None and run.clock() >= control.deadline_at:
        control.stop_run(StopReason.DEADLINE)
    _watch_silence(gathering)
    return state


def _watch_silence(gathering: Gathering) -> None:
    """Give the run up where its parts bring nothing for too long: a stopped one looks alive."""
    control = gathering.run.control
    at, now = asyncio.get_running_loop().time(), gathering.run.clock()
    done = sum(each.done for each in control.progress.values())
    if done != gathering.done:
        gathering.done = done
        control.silence.ends()
    else:
        control.silence.goes_on("workers", "what the run's workers ask", at=at, now=now)
    control.give_up(at)


def _exchange(gathering: Gathering, mine: Mapping[str, str]) -> WorkState:
    for scope, reason in mine.items():
        gathering.work.stop(gathering.run.run_id, scope, reason)
    return gathering.work.look(gathering.run.run_id)


def _read_ends(
    gathering: Gathering, shard: ShardState
) -> tuple[NDArray[np.int64], NDArray[np.int8], NDArray[np.int16], NDArray[np.bool_]]:
    """Return what became of a shard's lookups: indexes, statuses, attempts, listings.

    What another process of this very run had been answered counts as the run's own answer.
    """
    table = gathering.space.get(f"ended-{shard.name}")
    indexes, status = table["index"].to_numpy(), table["standing"].to_numpy().copy()
    reused = np.flatnonzero(status == LookupStatus.REUSED.value)
    if len(reused):
        run = gathering.run
        subjects = gathering.space.get(shard.name)["subject"].to_pylist()
        mine = [subjects[place] for place in reused]
        known = run.journal.answers.latest(shard.check, mine, bodies=False)
        for place, subject in zip(reused, mine, strict=True):
            answer = known.get(subject)
            if answer is not None and answer.outcome == Outcome.UNREADABLE:
                status[place] = LookupStatus.UNREADABLE.value
            elif answer is not None and answer.run_id == run.run_id:
                paid = answer.cost_micro != 0
                status[place] = LookupStatus.PAID.value if paid else LookupStatus.FREE.value
    return indexes, status, table["attempts"].to_numpy(), table["listed"].to_numpy()


def _gather(
    gathering: Gathering,
    indexes: NDArray[np.int64],
    status: NDArray[np.int8],
    attempts: NDArray[np.int16],
    listed: NDArray[np.bool_],
) -> None:
    """Take over what became of a shard's lookups."""
    run, rounds = gathering.run, gathering.rounds
    run.status[indexes] = status
    run.listed[indexes] |= listed
    rounds.offered[indexes] = False
    rounds.attempts[indexes] = np.maximum(rounds.attempts[indexes], attempts)
    if rounds.sparing is not None:
        for place in np.flatnonzero(status != LookupStatus.WAITING.value):
            rounds.sparing.end(int(indexes[place]), listed=bool(listed[place]))


def _is_over(gathering: Gathering, state: WorkState) -> bool:
    """Return whether every shard was asked, or will not be, and nothing is under way."""
    control = gathering.run.control
    stopped = set(control.stopped_checks)
    if control.stop is not None:
        settled = not any(part.alive and part.state == ASKING for part in state.parts)
        if settled and all(task.done() for task in gathering.alone.values()):
            return True
        # A suspended worker looks alive for ever; what it has in flight is settled by a resume.
        gives_up_at = control.silence.gives_up_at
        return gives_up_at is not None and asyncio.get_running_loop().time() >= gives_up_at
    return all(shard.done or (shard.check in stopped and not shard.held) for shard in state.shards)


# --- parts that were lost ---


async def call_parts(gathering: Gathering) -> None:
    """Start every part."""
    for part in range(1, gathering.run.parameters.workers + 1):
        await _start(gathering, part)


async def _start(gathering: Gathering, part: int) -> None:
    gathering.starts[part] = gathering.starts.get(part, 0) + 1
    await gathering.crew.start(part)


async def _bring_back_lost(gathering: Gathering, state: WorkState) -> None:
    """Start again each part whose process is dead, or never came to be."""
    if gathering.run.control.stop is not None:
        return
    for part in state.parts:
        if gathering.starts.get(part.part, 0) >= MOST_STARTS:
            continue
        if await _is_lost(gathering, part):
            await asyncio.to_thread(gathering.work.call_again, gathering.run.run_id, part.part)
            await _start(gathering, part.part)


async def _is_lost(gathering: Gathering, part: PartState) -> bool:
    if part.state == ASKING:
        return not part.alive
    return part.state == CALLED and await gathering.crew.came_to_nothing(part.part)


def _help_out(gathering: Gathering, state: WorkState) -> None:
    """Ask in this process too, where nobody has taken part for long."""
    now = asyncio.get_running_loop().time()
    if gathering.last_sign is None or any(
        part.alive and part.state == ASKING for part in state.parts
    ):
        gathering.last_sign = now
    if now - gathering.last_sign < ALONE_AFTER_S:
        return
    notice = (
        f"no worker took part for {ALONE_AFTER_S:.0f} s, so that the run asked in its own process; "
        "see that workers of the pool run"
    )
    if notice not in gathering.run.control.notices:
        gathering.run.control.notices.append(notice)
    loop = asyncio.get_running_loop()
    for check in gathering.run.wanted.checks:
        if check not in gathering.alone or gathering.alone[check].done():
            gathering.alone[check] = loop.create_task(_ask_alone(gathering, check))


async def _ask_alone(gathering: Gathering, check: str) -> None:
    run_id = gathering.run.run_id
    while gathering.run.control.stop is None:
        name = await asyncio.to_thread(gathering.work.take, run_id, check)
        if name is None:
            return
        await gathering.ask(check, name)
        indexes = gathering.space.get(name)["index"].to_numpy()
        await asyncio.to_thread(
            put_ended, gathering.space, name, indexes, gathering.run, gathering.rounds
        )
        await asyncio.to_thread(gathering.work.done, run_id, name)


# --- the end ---


async def let_go(gathering: Gathering) -> None:
    """Let the parts end; where the run was stopped, wait until what is in flight has settled."""
    loop = asyncio.get_running_loop()
    give_up_at = loop.time() + LET_GO_S
    while gathering.run.control.stop is not None and loop.time() < give_up_at:
        state = await look(gathering)
        if not any(part.alive and part.state == ASKING for part in state.parts):
            break
        await asyncio.sleep(POLL_S)
    run, rounds = gathering.run, gathering.rounds
    await asyncio.to_thread(gathering.work.end, run.run_id)
    gathering.totals.of_the_moment(run.control, ())
    await asyncio.to_thread(gathering.space.clear)
    rounds.layout, rounds.waiting = ShardLayout(run.workspace, run.settings.shard_rows), -1
    rounds.offered[:] = False
