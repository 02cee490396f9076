"""A run of any flow within the engine: opened, handed to its tasks, called for, ended.

Tasks take the run itself: the engine stores no arguments and looks inside no plain object. Two runs
of one process share nothing. What is asked, and what answers mean, is each flow's own (`steps/`).
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from prefect import get_client, get_run_logger
from prefect.runtime import flow_run
from prefect.settings import PREFECT_API_URL

from nightscreen.schemas.api_runs import ApiRunParameters
from nightscreen.schemas.checks import family_of
from nightscreen.schemas.errors import NightscreenError, SettingsError, UsageError
from nightscreen.schemas.settings import read_settings
from nightscreen.steps.calling.call_session import open_call_session
from nightscreen.steps.calling.waiting import wait_and_resume
from nightscreen.steps.control import StopReason
from nightscreen.steps.ops.heartbeat import ASKING, PAUSED, PLANNING, READING, WRITING
from nightscreen.steps.run import Run
from nightscreen.steps.screening_run import ScreeningRun
from nightscreen.tasks.artifacts import ending_tags, show_report, tag_run
from nightscreen.tasks.cancellation import handle_sigterm, shield_until_done, to_prefect_state
from nightscreen.tasks.events import tell_events
from nightscreen.tasks.logs import say_report, set_up_logs
from nightscreen.tasks.monitoring import telling_false_starts, watching
from nightscreen.tasks.progress import show_progress
from nightscreen.tasks.temporary_server import is_temporary
from nightscreen.tasks.terminal import AT_TERMINAL, shown_at_terminal

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping

    from prefect.client.orchestration import PrefectClient
    from prefect.client.schemas.objects import State

    from nightscreen.schemas.parameters import ScreenBatch
    from nightscreen.schemas.settings import Settings
    from nightscreen.steps.calling.call_session import CallSession
    from nightscreen.steps.calling.funding_rounds import FundingRounds
    from nightscreen.steps.control import Control
    from nightscreen.steps.report.report_json import RowTally


R = TypeVar("R", bound=Run)
T = TypeVar("T")
P = TypeVar("P", bound=ApiRunParameters)
Opened = TypeVar("Opened", bound="OpenRun[Any]")


class NotCallingError(NightscreenError):
    """A task that calls was started while its run has nothing open for calls."""

    def __init__(self, run_id: str) -> None:
        super().__init__(
            f"run {run_id} makes no calls now: tasks belong to the flow run that opened it; resume "
            "the run with --run"
        )


class OpenRun(Generic[R]):
    """One open run; a plain object, so that the engine does not walk through what it holds.

    Attributes:
        run: what the run has open.
        session: what is open while it makes its calls.
        called: its calls were begun.
        work: what the tasks of its flow share, made by its own steps.
        signalled: the process was told to end while the run was open.
    """

    def __init__(self, run: R) -> None:
        self.run = run
        self.session: CallSession | None = None
        self.called = False
        self.work: Any = None
        self.signalled = False

    def __str__(self) -> str:
        """Return the run's id."""
        return self.run.run_id

    @property
    def run_id(self) -> str:
        """Return the run's id."""
        return self.run.run_id

    @property
    def control(self) -> Control:
        """Return what stops the run and counts its calls."""
        return self.run.control

    @property
    def calls(self) -> CallSession:
        """Return what is open for calls.

        Raises:
            NotCallingError: nothing is.
        """
        if self.session is None:
            raise NotCallingError(self.run_id)
        return self.session

    @property
    def phase(self) -> str:
        """Return which part of its work the run is in."""
        if self.session is not None:
            return ASKING
        if self.control.resting_since is not None:
            return PAUSED
        return WRITING if self.called else self._before_calls

    @property
    def _before_calls(self) -> str:
        return READING

    async def cut(self) -> None:
        """Cut what is still in flight, so that it is written down as in doubt."""
        if self.session is not None:
            await self.session.client.aclose()

    async def settle(self) -> None:
        """Let what is in flight settle, and close what is open for calls."""
        if self.session is not None:
            await self.session.close()
            self.session = None


class OpenScreening(OpenRun[ScreeningRun]):
    """One open screening run.

    Attributes:
        rows: its rows, once they are written.
        rounds: what pays for its calls, while it makes them.
        sessions: how often it has called parts.
    """

    def __init__(self, run: ScreeningRun) -> None:
        super().__init__(run)
        self.rows: RowTally | None = None
        self.rounds: FundingRounds | None = None
        self.sessions = 0

    @property
    def funded(self) -> FundingRounds:
        """Return what pays for its calls.

        Raises:
            NotCallingError: it makes none now.
        """
        if self.rounds is None:
            raise NotCallingError(self.run_id)
        return self.rounds

    async def settle(self) -> None:
        """Let what is in flight settle; nothing pays for calls any more."""
        await super().settle()
        self.rounds = None

    @property
    def _before_calls(self) -> str:
        if self.run.plan is None:
            return READING
        if self.run.quote is None:
            return PLANNING
        return PAUSED if self.control.stop is None else WRITING


OpenApiRun = OpenRun[Run]


def screening_at_terminal() -> ScreeningRun | None:
    """Return the screening run that whoever typed the command has open."""
    terminal = AT_TERMINAL.get()
    open_run = None if terminal is None else terminal.run
    return open_run.run if isinstance(open_run, OpenScreening) else None


# --- the life of a run ---


def named(word: str) -> Callable[[], str]:
    """Return what names a flow run: by the run it resumes, or by a word; nobody's data."""

    def run_name() -> str:
        given = flow_run.parameters.get("parameters", {})
        values = given if isinstance(given, dict) else given.model_dump()
        return f"resume-{values['run']}" if values.get("run") else word

    return run_name


async def in_thread(
    open_run: Callable[[P, Settings], Run], parameters: P, settings: Settings
) -> OpenApiRun:
    """Open a run in a thread."""
    return OpenApiRun(await asyncio.to_thread(open_run, parameters, settings))


@asynccontextmanager
async def opened(
    parameters: ScreenBatch | ApiRunParameters,
    opening: Callable[[Settings], Awaitable[Opened]],
    *,
    word: str,
) -> AsyncIterator[Opened]:
    """Open a run for the tasks of this process, watch over it, and close it whatever happens.

    Where it comes to nothing by a mistake of usage, and nothing was sent, nothing is left of it.

    Args:
        parameters: what the flow was given.
        opening: opens the run.
        word: what names the flow where the run has no batch name yet.
    """
    with telling_false_starts(word, parameters.run):
        settings = read_settings()
        set_up_logs(settings.log_format)
        run = await opening(settings)
    try:
        with shown_at_terminal(run), handle_sigterm(run):
            await _refuse_lowered_limits(run.run)
            await tag_run("nightscreen", run.run_id, run.run.purpose)
            async with watching(run):
                yield run
    except UsageError:
        await asyncio.to_thread(run.run.withdraw)
        raise
    finally:
        run.work = None  # passwords may be a part of it
        run.run.close()


async def _refuse_lowered_limits(run: Run) -> None:
    """Refuse to share a cap that somebody lowered where nothing reads it any more.

    Raises:
        SettingsError: the service would get more calls at once than somebody allowed.
    """
    shares = run.settings.share_caps or getattr(run.parameters, "workers", 1) > 1
    url = PREFECT_API_URL.value()
    if run.only_quotes or not shares or not url or is_temporary(url):
        return
    most = run.settings.max_in_flight.model_dump()
    families = {family_of(operation) for operation in run.operations}
    async with get_client() as client:
        in_flight = {family: most[family] for family in families}
        why = await tried(lowered_limit(client, in_flight))
    if why:
        raise SettingsError(why)


async def tried(asked: Coroutine[Any, Any, T]) -> T | None:
    """Ask the server; None where it refuses or cannot be reached."""
    task = asyncio.get_running_loop().create_task(asked)
    await asyncio.wait([task])
    if task.cancelled() or task.exception() is not None:
        logging.getLogger(__name__).warning("the Prefect server gave no answer")
        return None
    return task.result()


async def lowered_limit(client: PrefectClient, in_flight: Mapping[str, int]) -> str:
    """Return what to do about a limit by which earlier versions held a cap, where it is lower.

    Args:
        client: of the server.
        in_flight: the caps by the settings, by family.
    """
    found = {each.name: each for each in await client.read_global_concurrency_limits(limit=200)}
    for family, most in in_flight.items():
        limit = found.get(f"nightscreen-{family.replace('_', '-')}")
        if limit is not None and not (limit.active and limit.limit >= most):
            was = str(limit.limit) if limit.active else "off"
            return (
                f"the Prefect server's limit {limit.name} is {was} and is read no more: where that "
                f"was meant, set NIGHTSCREEN_MAX_IN_FLIGHT__{family.upper()} on every machine, "
                f"then prefect global-concurrency-limit delete {limit.name}"
            )
    return ""


@asynccontextmanager
async def calling(
    run: OpenRun[Any], open_session: Callable[[], CallSession] | None = None
) -> AsyncIterator[None]:
    """Open what a run's calls need for the body; what is in flight settles at its end."""
    if open_session is None:
        open_session = partial(open_call_session, run.run)
    run.called = True
    run.session = open_session()
    try:
        yield
    except asyncio.CancelledError:
        run.control.stop_run(StopReason.CANCELLED)
        raise
    finally:
        await shield_until_done(run.settle())


async def call(run: OpenApiRun, ask: Callable[[OpenApiRun], Awaitable[object]]) -> None:
    """Make the calls of a run beside screening, in a session of its own."""
    async with calling(run):
        await ask(run)


async def make_calls(
    run: OpenRun[Any],
    ask: Callable[[], Awaitable[object]],
    *,
    again: Callable[[], object],
    close: Callable[[], object],
    word: str,
) -> None:
    """Make a run's calls, once more after each stop that passes before the deadline.

    When cancelled, calls in flight settle, then the run's folder is closed.

    Args:
        run: the open run.
        ask: makes the calls that are left.
        again: lets what was lost or failed be asked again.
        close: writes what there is to write of a run that was cancelled; called in a thread.
        word: names its progress.

    Raises:
        ServiceAddressError: the address is not the service's; nothing is left of a new run.
    """
    try:
        async with show_progress(run.run, word):
            await ask()
            while await wait_and_resume(run.run, again):
                await ask()
    except asyncio.CancelledError:
        await shield_until_done(asyncio.to_thread(close))
        raise
    run.run.refuse_wrong_address()


async def ended(run: OpenRun[Any], report: dict[str, Any]) -> dict[str, Any] | State[Any]:
    """Say everywhere how a run ended; return its report, or what the engine is to be told."""
    get_run_logger().info(
        "run %s %s%s: %s naira; results in %s",
        run.run_id,
        report["state"],
        f" ({report['stop_reason']})" if report["stop_reason"] else "",
        report["cost"]["total"],
        run.run.folder.path,
    )
    say_report(report)
    tell_events(report)
    await show_report(run.run, report)
    await tag_run(*ending_tags(report))
    return await to_prefect_state(run, report)
