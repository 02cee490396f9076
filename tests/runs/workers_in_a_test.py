"""Workers of a run as tasks of one test: each with a journal, a holder and a caller of its own.

No engine. How workers are started on a work pool is in `tests/flows`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import httpx

from nightscreen.calling.asking import Asking
from nightscreen.config.parameters import ScreenBatch
from nightscreen.runs.worker import LOOK_S, Totals, close_worker, open_worker, sync_with_run
from nightscreen.sandbox.app import application
from nightscreen.schemas.calls import Reservation
from nightscreen.schemas.errors import JournalError
from tests.screening import Night, Unasked, World


class Shared(Unasked):
    """Has workers ask beside the run's own process.

    Args:
        world: has the service that they ask.
        on_open: called with each worker's number once it is open; may end it later.

    Attributes:
        tasks: the workers under way, by number.
        workers: what each has open.
        attempts: calls that each worker made, by its number.
    """

    def __init__(
        self,
        world: World,
        on_open: Callable[[Shared, int], None] | None = None,
    ) -> None:
        super().__init__()
        self._world, self._on_open = world, on_open
        self.tasks: dict[int, asyncio.Task[None]] = {}
        self.workers: dict[int, Asking] = {}
        self.attempts: dict[int, int] = {}

    @asynccontextmanager
    async def sharing(self, asking: Asking) -> AsyncIterator[None]:
        """Start workers, and add up what they report."""
        totals = Totals()
        loop = asyncio.get_running_loop()
        parameters = asking.run.parameters
        assert isinstance(parameters, ScreenBatch)
        for number in range(1, parameters.workers + 1):
            self.tasks[number] = loop.create_task(self._work(asking, number))
        looking = loop.create_task(self._look(asking, totals))
        try:
            yield
            for task in self.tasks.values():
                await asyncio.wait([task])
                if not task.cancelled():
                    task.result()
        finally:
            looking.cancel()
            await asyncio.wait([looking])
            await totals.look(asking)

    async def _look(self, asking: Asking, totals: Totals) -> None:
        while True:
            await totals.look(asking)
            await asyncio.sleep(LOOK_S)

    async def _work(self, asking: Asking, number: int) -> None:
        run = asking.run
        worker = await asyncio.to_thread(
            open_worker,
            run.run_id,
            run.settings,
            transport=httpx.ASGITransport(application(self._world.sandbox)),
            clock=run.clock,
        )
        if worker is None:
            return
        self.workers[number] = worker
        if self._on_open is not None:
            self._on_open(self, number)
        looking = asyncio.get_running_loop().create_task(_heed(worker))
        try:
            async with asyncio.TaskGroup() as group:
                for check in worker.run.operations:
                    group.create_task(worker.ask(check))
        finally:
            looking.cancel()
        await close_worker(worker)
        self.attempts[number] = sum(each.attempts for each in worker.run.progress.values())
        await asyncio.to_thread(worker.run.close)

    async def kill(self, number: int) -> None:
        """Let a worker end as SIGKILL does: nothing is given back or written, its lock is free."""
        worker = self.workers[number]
        writer = worker.writer
        # what is in flight here must not be reported by a dead process
        writer._store = Dead()  # type: ignore[assignment]  # as much as is used
        self.tasks[number].cancel()
        await asyncio.wait([self.tasks[number]])
        await asyncio.get_running_loop().run_in_executor(writer._thread, int)
        worker.run.journal.close()


class Dead:
    """The journal of a process that is no more."""

    def claim(self, *_: object, **__: object) -> tuple[list[Reservation], dict[str, Any]]:
        raise JournalError("the process is dead")

    def settle(self, *_: object) -> None:
        raise JournalError("the process is dead")


async def _heed(worker: Asking) -> None:
    while True:
        await sync_with_run(worker)
        await asyncio.sleep(LOOK_S)


def screen_with_workers(
    world: World,
    rows: Sequence[Mapping[str, str]],
    *,
    on_open: Callable[[Shared, int], None] | None = None,
    **options: Any,  # noqa: ANN401 - parameters of a run
) -> tuple[Night, Shared]:
    """Screen customers with several workers; return what came of it, and who asked."""
    runner = Shared(world, on_open)
    return world.screen_by(runner, rows, **options), runner
