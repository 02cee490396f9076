"""Runs within Prefect: stations become task runs, and SIGTERM stops a run in an orderly way.

The engine stores nothing that a station takes or returns: task arguments are never stored, and
results are not because of `persist_result=False`.

Prefect answers SIGTERM with an exception in the event loop, which would break the calls in flight.
Here the signal only stops the run, as Ctrl-C does: calls settle, the folder is written, then the
engine learns of it. A worker of a run is a separate flow run on a work pool; it gets only the run's
id and the worker's number (`runs/worker.py`).
"""

from __future__ import annotations

import asyncio
import inspect
import signal
import threading
from contextlib import asynccontextmanager, contextmanager
from functools import cache, partial
from typing import TYPE_CHECKING, Any, TypeVar

from prefect import get_client, get_run_logger, task
from prefect.cache_policies import NO_CACHE
from prefect.deployments import arun_deployment
from prefect.exceptions import TerminationSignal
from prefect.runtime import deployment, flow_run
from prefect.states import Cancelled

from nightscreen.config.settings import read_settings
from nightscreen.journal.audit import user_name
from nightscreen.operations.person_run import PersonRun, run_people
from nightscreen.ops.vitals import ASKING, PAUSED, PLANNING, READING, WRITING
from nightscreen.runs.approval import may_spend
from nightscreen.runs.runner import Runner
from nightscreen.runs.screening import ask_check
from nightscreen.runs.screening_run import ScreeningRun
from nightscreen.runs.worker import LOOK_S, Totals, close_worker, open_worker, sync_with_run
from nightscreen.schemas.api_runs import ApiRunParameters
from nightscreen.schemas.errors import UnexpectedFault
from nightscreen.schemas.stops import StopReason
from nightscreen.tasks.error_boundary import sanitize_errors
from nightscreen.tasks.monitoring import paging_false_starts, watching
from nightscreen.tasks.server import beside, is_cancelled, show_quote, show_report, tag_run, tried
from nightscreen.tasks.terminal import AT_TERMINAL, shown_at_terminal

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator
    from uuid import UUID

    from prefect import Task
    from prefect.client.schemas.objects import State, TaskRun

    from nightscreen.calling.asking import Asking
    from nightscreen.calling.caller import Caller
    from nightscreen.calling.run import Run
    from nightscreen.calling.stops import Stops
    from nightscreen.client.api import Client

P = TypeVar("P", bound=ApiRunParameters)
R = TypeVar("R")
RE_ENTRIES = 2
RE_ENTRY_DELAYS_S = [1.0, 10.0]
"""How often, and after how many seconds, a task that makes calls is retried."""
_PHASES = {"plan": PLANNING, "write rows": WRITING}
"""The phase that a run enters with a station."""
PATIENCE_S = 15.0
"""How long calls in flight may take after SIGTERM; the engine kills a run 30 s after it."""
WORKER = "screen-part/part"
"""The deployment whose flow runs are workers."""
LEAST_LOOKUPS = 100
"""Lookups per worker; with fewer, starting processes would take longer than asking."""
LET_GO_S = 20.0  # how long workers have to settle after the run has stopped


def named(name: str | Callable[[dict[str, Any]], str]) -> Callable[[], str]:
    """Return a function that names a flow run, by the run it resumes or else as given.

    The name holds no personal data.
    """

    def run_name() -> str:
        parameters = flow_run.parameters.get("parameters", {})
        values = parameters if isinstance(parameters, dict) else parameters.model_dump()
        if values.get("run"):
            return f"resume-{values['run']}"
        return name if isinstance(name, str) else name(values)

    return run_name


# --- stopping ---


@contextmanager
def handle_sigterm(
    stops: Stops,
    record_signal: Callable[[], None],
    cut: Callable[[], Coroutine[Any, Any, None]],
) -> Iterator[Callable[[], None]]:
    """Let SIGTERM stop a run in an orderly way while the body runs; a second one changes nothing.

    `record_signal` is called at once. Calls still in flight after `PATIENCE_S` are `cut`, so that
    they are recorded as in doubt. The body gets a function that stops the run in the same way.
    """
    loop, timers = asyncio.get_running_loop(), list[asyncio.TimerHandle]()
    cuts = set[asyncio.Task[None]]()  # the loop keeps only weak references

    def stop() -> None:
        stops.stop(StopReason.CANCELLED)
        if not timers:
            timers.append(loop.call_later(PATIENCE_S, lambda: cuts.add(loop.create_task(cut()))))

    def on_signal(*_: object) -> None:  # may interrupt the interpreter anywhere
        record_signal()
        loop.call_soon_threadsafe(stop)

    is_main = threading.current_thread() is threading.main_thread()  # no other gets signals
    previous = signal.signal(signal.SIGTERM, on_signal) if is_main else None
    try:
        yield stop
    finally:
        for timer in timers:
            timer.cancel()
        if is_main:
            signal.signal(signal.SIGTERM, signal.SIG_DFL if previous is None else previous)


async def to_prefect_state(result: R, message: str, *, signalled: bool) -> R | State[Any]:
    """Return a flow's result, or Cancelled with a message if a person cancelled a worker's run.

    On the command line a stopped run returns its result like any other.

    Raises:
        TerminationSignal: a worker's run was ended and nobody cancelled it: the machine is going
            down.
    """
    if not signalled or deployment.id is None:
        return result
    if not await is_cancelled():
        raise TerminationSignal(signal.SIGTERM)
    return Cancelled(message=message)


async def shield_until_done(work: Coroutine[Any, Any, object]) -> None:
    """Finish work even if the caller is cancelled meanwhile; raise the cancellation afterwards.

    Raises:
        CancelledError: the caller was cancelled; the work is done.
    """
    task = asyncio.get_running_loop().create_task(work)
    cancelled = False
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError:
            cancelled = True
    task.result()
    if cancelled:
        raise asyncio.CancelledError


async def _keep_looking(look: Callable[[], Coroutine[Any, Any, object]], asking: Asking) -> None:
    """Call `look` every `LOOK_S` seconds; if it fails, the asking stops."""
    try:
        while True:
            await look()
            await asyncio.sleep(LOOK_S)
    except Exception as error:  # noqa: BLE001 - every check's task raises it
        asking.writer.breaks(error)


# --- stations as task runs ---


async def is_unforeseen(_task: Task[..., Any], _task_run: TaskRun, state: State[Any]) -> bool:
    """Return whether a task run failed unexpectedly, so that a retry may succeed.

    It must be async: a sync condition on an async task silently turns retries off.
    """
    fault = await state.aresult(raise_on_failure=False)
    return isinstance(fault, UnexpectedFault)


@cache
def _task(name: str, *, is_retried: bool) -> Task[[Callable[[], Any]], Any]:
    async def run_station(work: Callable[[], Any]) -> Any:  # noqa: ANN401 - as the station
        with sanitize_errors():
            if inspect.iscoroutinefunction(work):
                return await work()
            return await asyncio.to_thread(work)

    return task(
        name=name,
        cache_policy=NO_CACHE,
        persist_result=False,
        retries=RE_ENTRIES if is_retried else 0,
        retry_delay_seconds=RE_ENTRY_DELAYS_S,
        retry_condition_fn=is_unforeseen,
    )(run_station)


class EngineRunner(Runner):
    """Runs a run's stations as task runs of the current flow.

    Attributes:
        run: the run, once it has begun.
        has_begun: the run is open.
        client: makes its calls; None when it makes none.
        at_work: its last phase, as in `ops.vitals`.
        signalled: SIGTERM arrived while the run was open.
    """

    run: Run

    def __init__(self) -> None:
        self.has_begun = False
        self.client: Client | None = None
        self.at_work = READING
        self.signalled = False

    def phase(self) -> str:
        """Return the run's phase."""
        is_paused = self.client is None and self.run.stops.resting_since is not None
        return PAUSED if is_paused else self.at_work

    def record_signal(self) -> None:
        """Note that SIGTERM arrived."""
        self.signalled = True

    async def cut(self) -> None:
        """Cut the calls still in flight, so that they are recorded as in doubt."""
        if self.client is not None:
            await self.client.aclose()

    @asynccontextmanager
    async def watching(self, run: Run) -> AsyncIterator[None]:
        """Watch the run; let signals and the user at the terminal stop it."""
        self.run, self.has_begun = run, True
        with shown_at_terminal(run), handle_sigterm(run.stops, self.record_signal, self.cut):
            await tag_run("nightscreen", run.run_id, run.purpose)
            async with watching(run, self.phase):
                yield

    async def may_spend(self, run: Run, quote: dict[str, Any]) -> bool:
        """Show the quote; use an existing approval, or ask the user at the terminal."""
        if isinstance(run, ScreeningRun):
            await show_quote(run, quote)
        self.at_work = PAUSED
        terminal = AT_TERMINAL.get()
        is_approved = await asyncio.to_thread(
            may_spend,
            run,
            quote,
            by=f"deployment {deployment.name}" if deployment.name else user_name(),
            deployment_id=deployment.id or flow_run.parent_deployment_id,
            ask_here=None if terminal is None else terminal.ask,
        )
        if not is_approved:
            waits = "run %s waits for approval: nightscreen approve %s"
            get_run_logger().info(waits, run.run_id, run.run_id)
        return is_approved

    @asynccontextmanager
    async def asking(self, write_all: Callable[[], object]) -> AsyncIterator[None]:
        """Write a complete folder even if the run is cancelled."""
        try:
            yield
        except asyncio.CancelledError:
            await shield_until_done(asyncio.to_thread(write_all))
            raise

    @asynccontextmanager
    async def calling(self, caller: Caller) -> AsyncIterator[None]:
        """Settle calls in flight however the body ends."""
        self.client, self.at_work = caller.client, ASKING
        try:
            yield
        except asyncio.CancelledError:
            self.run.stops.stop(StopReason.CANCELLED)
            raise
        finally:
            await shield_until_done(caller.close())
            self.client, self.at_work = None, WRITING

    @asynccontextmanager
    async def sharing(self, asking: Asking) -> AsyncIterator[None]:
        """Start workers while the body asks, if enough lookups are left; add up their progress."""
        run, number = asking.run, getattr(asking.run.parameters, "workers", 1)
        left = sum(check.wanted - check.done for check in run.progress.values())
        if number == 1 or run.stops.reason is not None or left < LEAST_LOOKUPS * number:
            yield
            return
        started, totals = await start_workers(run.run_id, number), Totals()
        try:
            async with beside(_keep_looking(partial(totals.look, asking), asking)):
                yield
                await _wait_for_workers(run)
        finally:
            await shield_until_done(cancel_unstarted(started))
            await shield_until_done(totals.look(asking))

    async def step(
        self,
        name: str,
        station: Callable[..., Any],
        *given: Any,  # noqa: ANN401 - as the station
        re_entered: bool = False,
    ) -> Any:  # noqa: ANN401 - as the station
        """Run one station as a task run; a station that is not async runs in a thread."""
        self.at_work = _PHASES.get(name, self.at_work)
        return await _task(name, is_retried=re_entered)(partial(station, *given))

    async def ended(self, report: dict[str, Any]) -> dict[str, Any] | State[Any]:
        """Log and show how the run ended; return its report, or a Prefect state."""
        run = self.run
        if not run.only_quotes:
            await self._say_end(run, report)
        elif isinstance(run, ScreeningRun):
            await show_quote(run, report)
        message = f"to go on, resume run {run.run_id}"
        return await to_prefect_state(report, message, signalled=self.signalled)

    async def _say_end(self, run: Run, report: dict[str, Any]) -> None:
        state, reason = report["state"], report["stop_reason"]
        get_run_logger().info(
            "run %s %s%s: %s naira; results in %s",
            run.run_id,
            state,
            f" ({reason})" if reason else "",
            report["cost"]["total"],
            run.folder.path,
        )
        await show_report(run, report)
        held = state == "completed" and not report["publishable"]
        await tag_run(state, reason, "held back" if held else None)


async def run_in_engine(
    kind: type[PersonRun[P, Any]], parameters: P
) -> dict[str, Any] | State[Any]:
    """Run a `PersonRun` as a flow; return its report, or a Prefect state."""
    runner = EngineRunner()
    with paging_false_starts(kind.name, parameters.run, lambda: runner.has_begun):
        report = await run_people(kind, parameters, read_settings(), runner=runner)
    return await runner.ended(report)


# --- workers ---


async def start_workers(run_id: str, number: int) -> list[UUID]:
    """Start workers of a run as flow runs of the deployment; return the ids of those started.

    If the deployment is missing or nothing serves it, the run's own process asks alone.
    """
    started = []
    for part in range(1, number + 1):
        worker = await tried(
            arun_deployment(
                WORKER,
                parameters={"run_id": run_id, "part": part},
                flow_run_name=f"{run_id}-part-{part}",
                timeout=0,
            ),
            f"no worker was started as {WORKER}",
        )
        if worker is not None:
            started.append(worker.id)
    return started


async def cancel_unstarted(started: Iterable[UUID]) -> None:
    """Cancel workers that have not begun: they are no longer needed."""
    async with get_client() as client:
        for flow_run_id in started:
            worker = await tried(client.read_flow_run(flow_run_id))
            if worker is not None and worker.state is not None and worker.state.is_scheduled():
                await tried(client.set_flow_run_state(flow_run_id, Cancelled()))


async def _wait_for_workers(run: Run) -> None:
    """Wait until no living worker has a call in flight that the closing balance would miss.

    After a stop the wait is limited to `LET_GO_S`: a suspended worker never settles.
    """
    loop = asyncio.get_running_loop()
    give_up_at = loop.time() + LET_GO_S
    while await asyncio.to_thread(run.journal.askers.asks_elsewhere, run.run_id):
        if run.stops.reason is not None and loop.time() >= give_up_at:
            return
        await asyncio.sleep(LOOK_S)


async def ask_as_worker(run_id: str) -> dict[str, int]:
    """Ask lookups of a run as one of its workers; return attempts made, by check.

    Raises:
        SettingsError: this machine lacks the service's address or key.
        JournalError: this machine's journal does not know the run.
    """
    asking = await asyncio.to_thread(open_worker, run_id, read_settings())
    if asking is None:  # the run has finished asking
        return {}
    run, runner = asking.run, EngineRunner()

    def record_signal() -> None:
        asking.leaves = True

    async def follow_run(stop: Callable[[], None]) -> None:
        try:
            await sync_with_run(asking)
        except Exception:
            record_signal()
            run.stops.stop(StopReason.CANCELLED)
            raise
        if run.stops.reason == StopReason.CANCELLED:
            stop()

    try:
        with handle_sigterm(run.stops, record_signal, asking.client.aclose) as stop:
            look = _keep_looking(partial(follow_run, stop), asking)
            try:
                async with beside(look), asyncio.TaskGroup() as group:
                    for check in run.operations:
                        group.create_task(ask_check(check, asking, runner))
            finally:
                await shield_until_done(close_worker(asking))
    finally:
        await asyncio.to_thread(run.close)
    return {check: progress.attempts for check, progress in run.progress.items()}
