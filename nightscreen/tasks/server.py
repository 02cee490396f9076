"""What is asked of the Prefect server beside a run's states: artifacts, tags, ends, resuming.

Numbers, ids and words only: the engine keeps all of it in clear. What artifacts show is made in
`report.page`. A run never fails for what the server does not take.
"""

from __future__ import annotations

import asyncio
import logging
import re
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import UUID

from prefect import get_client
from prefect.artifacts import acreate_markdown_artifact
from prefect.context import FlowRunContext
from prefect.deployments import arun_deployment
from prefect.exceptions import ObjectNotFound
from prefect.runtime import deployment, flow_run
from prefect.settings import PREFECT_API_URL

from nightscreen.report.page import quote_markdown, summary_markdown
from nightscreen.runs.run_report import quote_document
from nightscreen.runs.screening_run import ScreeningRun
from nightscreen.schemas.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine, Mapping

    from nightscreen.calling.run import Run
    from nightscreen.config.parameters import ScreenBatch
    from nightscreen.schemas.approvals import Approval

T = TypeVar("T")
_NOT_IN_KEYS = re.compile(r"[^a-z0-9]+")
_MOST_LETTERS = 60  # a choice; the end is kept, which says what it shows
SCREENING = "screen-batch"


async def tried(
    asked: Coroutine[Any, Any, T], otherwise: str = "the Prefect server gave no answer"
) -> T | None:
    """Return what comes of it; None where it fails, which is noted without its text."""
    task = asyncio.get_running_loop().create_task(asked)
    await asyncio.wait([task])
    if task.cancelled() or (error := task.exception()) is None:
        return None if task.cancelled() else task.result()
    logging.getLogger(__name__).warning("%s: %s", otherwise, type(error).__name__)
    return None


@asynccontextmanager
async def beside(work: Coroutine[Any, Any, object]) -> AsyncIterator[None]:
    """Have work go on while the body runs; it is cancelled at the end, and waited for."""
    task = asyncio.get_running_loop().create_task(work)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])


async def show_quote(run: ScreeningRun) -> None:
    """Show what a run is expected to cost, before anybody approves it."""
    text, about = quote_markdown(quote_document(run)), f"What run {run.run_id} is expected to cost"
    await _show(text, f"{run.batch}-quote", about)


async def show_report(run: Run, report: Mapping[str, Any]) -> None:
    """Show how a run ended, and what to do next."""
    folder, about = str(run.folder.path.absolute()), f"How run {run.run_id} ended, what to do next"
    flow = "" if isinstance(run, ScreeningRun) else f"-{run.flow}"
    await _show(summary_markdown(report, folder), f"{run.batch}{flow}-summary", about)


async def _show(text: str, key: str, about: str) -> None:
    """Make an artifact under a key by which those of a batch follow each other."""
    slug = _NOT_IN_KEYS.sub("-", key.casefold())[-_MOST_LETTERS:].strip("-")
    await tried(acreate_markdown_artifact(text, key=slug, description=about))


async def tag_run(*tags: str | None) -> None:
    """Add tags to the flow run that is under way, so that it is found by them in the UI."""
    context = FlowRunContext.get()
    run = None if context is None else context.flow_run
    if run is None:
        return

    async def tag() -> None:
        async with get_client() as client:
            now = (await client.read_flow_run(run.id)).tags
            both = dict.fromkeys([*now, *(tag for tag in tags if tag)])
            await client.update_flow_run(run.id, tags=list(both))

    await tried(tag())


async def is_cancelled() -> bool:
    """Return whether a person cancelled this flow run of a worker.

    The engine hears of a cancellation by a signal that it takes for a crash unless its own handler
    is in place, so it is asked.
    """
    if deployment.id is None:
        return False
    async with get_client() as client:
        state = (await client.read_flow_run(UUID(flow_run.id))).state
    return state is not None and state.is_cancelling()


async def resume_in_deployment(
    approval: Approval, parameters: ScreenBatch, *, waits_in_inbox: bool
) -> str | None:
    """Have the deployment that started a run resume it; return the deployment's name.

    None where no server is configured, or the deployment is gone or does not take the run. Where
    its file waits in the inbox, the watch of that takes no run: it looks for what was approved by
    itself.

    Raises:
        SettingsError: the server cannot be reached.
    """
    if approval.deployment_id is None or not PREFECT_API_URL.value():
        return None
    deployment_id, given = UUID(approval.deployment_id), {}
    try:
        async with get_client() as client:
            found = await client.read_deployment(deployment_id)
            flow = await client.read_flow(found.flow_id)
        if flow.name == SCREENING:
            given = {"parameters": parameters.model_dump(mode="json", exclude_unset=True)}
        elif not waits_in_inbox:
            return None
        await arun_deployment(deployment_id, parameters=given, timeout=0)
    except ObjectNotFound:
        return None
    except Exception as error:  # noqa: BLE001 - whatever the engine raises, the approval stands
        raise SettingsError(
            f"run {approval.run_id} is approved, but the Prefect server of PREFECT_API_URL did not "
            f"take it ({type(error).__name__}): see that it runs, then type "
            f"nightscreen screen --run {approval.run_id}"
        ) from None
    return f"{flow.name}/{found.name}"
