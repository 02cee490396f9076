"""Parts of a run as tasks of one test: each with a journal, a holder and windows of its own.

No engine. How parts are started on a work pool is in `tests/flows`.
"""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import httpx

from nightscreen.calling import coordinator, worker
from nightscreen.calling import funding_rounds as asking
from nightscreen.config.parameters import ScreenBatch
from nightscreen.runs import screening_run
from nightscreen.sandbox.app import application
from nightscreen.schemas.errors import JournalError
from tests.screening import Unasked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from nightscreen.calling.funding_rounds import FundingRounds
    from nightscreen.calling.journal_writer import JournalWriter
    from nightscreen.calling.worker import WorkerPart
    from nightscreen.runs.screening_run import ScreeningRun
    from nightscreen.schemas.calls import Reservation
    from tests.screening import Night, World


@dataclass(repr=False)  # asyncio writes a result down whenever it takes its signals back
class TaskCrew:
    """Starts parts as tasks of this process.

    Attributes:
        group: holds the parts; one that fails fails the test instead of looking suspended.
        begun: how often each part was started.
        offers: how often lookups were offered to them.
        on_shard: called before a part asks a shard, with its number and the shard's name.
    """

    run: ScreeningRun
    world: World
    group: asyncio.TaskGroup
    on_shard: Callable[[TaskCrew, int, str], None] | None = None
    begun: list[int] = field(default_factory=list)
    offers: int = 0
    tasks: dict[int, asyncio.Task[None]] = field(default_factory=dict)
    open: dict[int, WorkerPart] = field(default_factory=dict)
    books: dict[int, JournalWriter] = field(default_factory=dict)

    async def start(self, part: int) -> None:
        """Start a part."""
        self.begun.append(part)
        self.tasks[part] = self.group.create_task(self._run(part))

    async def came_to_nothing(self, part: int) -> bool:
        """Return whether a part's task has ended."""
        return self.tasks[part].done()

    async def _run(self, number: int) -> None:
        part = await asyncio.to_thread(
            worker.open_part, self.run.run_id, number, self.run.settings, clock=self.run.clock
        )
        if part is None:
            return
        self.open[number] = part
        transport = httpx.ASGITransport(application(self.world.sandbox))
        open_ = part.open_rounds(transport=transport)
        self.books[number] = open_.session.writer

        async def ask(_check: str, name: str) -> None:
            if self.on_shard is not None:
                self.on_shard(self, number, name)
            await asking.ask_shard(open_, name)

        async with asyncio.TaskGroup() as group:
            heeding = group.create_task(_heed(part))
            async with asyncio.TaskGroup() as asked:
                for check in part.run.wanted.checks:
                    asked.create_task(worker.ask_shards(part, check, ask))
            heeding.cancel()
        await open_.close()
        await asyncio.to_thread(part.close)

    async def kill(self, number: int) -> None:
        """Let a part end as SIGKILL does: nothing is handed back or written, its lock is free."""
        book = self.books.pop(number)
        book._store = (
            DeadStore()
        )  # what is still in flight here must not be reported by a dead process
        self.tasks[number].cancel()
        await asyncio.wait([self.tasks[number]])
        await asyncio.get_running_loop().run_in_executor(book._thread, int)
        self.open.pop(number).run.journal.close()


class DeadStore:
    """The journal of a process that is no more."""

    def reserve(self, *_: object, **__: object) -> list[Reservation]:
        """Commit nothing."""
        raise JournalError("the process is dead")

    def settle(self, *_: object) -> None:
        """Commit nothing."""
        raise JournalError("the process is dead")


async def _heed(part: WorkerPart) -> None:
    while True:
        await worker.exchange(part)
        await asyncio.sleep(worker.POLL_S)


@contextmanager
def open_priced(
    world: World,
    rows: Sequence[Mapping[str, str]],
    **options: Any,  # noqa: ANN401 - parameters of a run
) -> Iterator[ScreeningRun]:
    """Open a run over customers and bring it as far as its price."""
    settings = world.read_settings()
    parameters = ScreenBatch(
        input=str(world.write(rows)), output=str(world.folder / "out"), **options
    )
    run = screening_run.open_screening(parameters, settings, clock=world.clock)
    try:
        screening_run.read_input(run)
        screening_run.make_plan(run)
        screening_run.make_price(run)
        yield run
    finally:
        run.close()


def screen_in_parts(
    world: World,
    rows: Sequence[Mapping[str, str]],
    *,
    on_shard: Callable[[TaskCrew, int, str], None] | None = None,
    **options: Any,  # noqa: ANN401 - parameters of a run
) -> tuple[Night, TaskCrew]:
    """Screen customers with several workers and return what came of it."""
    runner = Shared(world, on_shard)
    return world.screen_by(runner, rows, **options), runner.crew


class Shared(Unasked):
    """Has every lookup between the opening and the closing call asked by parts."""

    crew: TaskCrew

    def __init__(self, world: World, on_shard: Callable[[TaskCrew, int, str], None] | None) -> None:
        super().__init__()
        self._world, self._on_shard = world, on_shard

    async def share(self, rounds: FundingRounds) -> None:
        """Call parts, and gather what they did."""
        async with asyncio.TaskGroup() as group:
            self.crew = TaskCrew(rounds.run, self._world, group, self._on_shard)
            gathered = coordinator.open_gathering(rounds, 1, self.crew, refuse_to_ask)
            await coordinator.call_parts(gathered)
            await coordinator.ask_parts(gathered)
            await coordinator.let_go(gathered)
        self.crew.offers = rounds.laid_out


async def refuse_to_ask(_check: str, name: str) -> None:
    """Fail a test in which the run's own process would ask a shard."""
    raise AssertionError(f"{name} was asked by the run's own process")
