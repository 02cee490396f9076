"""Requests to the Prefect server besides a run's states: artifacts, tags, cancellation, resuming.

They hold no personal data, because Prefect stores them in plain text. `report.page` makes the texts
of artifacts. A run never fails because the server refuses one.
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
_MOST_LETTERS = 60  # a choice; the end of a key, which says what the artifact shows, is kept
SCREENING = "screen-batch"


async def tried(
    request: Coroutine[Any, Any, T], warning: str = "the Prefect server gave no answer"
) -> T | None:
    """Return the result of a request; None if it fails, logged without the error's text."""
    task = asyncio.get_running_loop().create_task(request)
    await asyncio.wait([task])
    if task.cancelled() or (error := task.exception()) is None:
        return None if task.cancelled() else task.result()
    logging.getLogger(__name__).warning("%s: %s", warning, type(error).__name__)
    return None


@asynccontextmanager
async def beside(work: Coroutine[Any, Any, object]) -> AsyncIterator[None]:
    """Run work in the background while the body runs; cancel it at the end and wait for it."""
    task = asyncio.get_running_loop().create_task(work)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])


async def show_quote(run: ScreeningRun) -> None:
    """Show what a run is expected to cost, before it is approved."""
    text, about = quote_markdown(quote_document(run)), f"What run {run.run_id} is expected to cost"
    await _show(text, f"{run.batch}-quote", about)


async def show_report(run: Run, report: Mapping[str, Any]) -> None:
    """Show how a run ended, and what to do next."""
    folder, about = str(run.folder.path.absolute()), f"How run {run.run_id} ended, what to do next"
    flow = "" if isinstance(run, ScreeningRun) else f"-{run.flow}"
    await _show(summary_markdown(report, folder), f"{run.batch}{flow}-summary", about)


async def _show(text: str, key: str, about: str) -> None:
    """Make an artifact; those of a batch share a key, so that Prefect lists them together."""
    slug = _NOT_IN_KEYS.sub("-", key.casefold())[-_MOST_LETTERS:].strip("-")
    await tried(acreate_markdown_artifact(text, key=slug, description=about))


async def tag_run(*tags: str | None) -> None:
    """Add tags to the current flow run, so that Prefect's pages can filter by them."""
    context = FlowRunContext.get()
    run = None if context is None else context.flow_run
    if run is None:
        return

    async def tag() -> None:
        async with get_client() as client:
            current = (await client.read_flow_run(run.id)).tags
            merged = dict.fromkeys([*current, *(tag for tag in tags if tag)])
            await client.update_flow_run(run.id, tags=list(merged))

    await tried(tag())


async def is_cancelled() -> bool:
    """Return whether a person cancelled this flow run of a worker.

    Prefect's runner cancels with a signal, as a machine going down does, so the server is asked.
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

    None if no server is configured, the deployment is gone, or it does not take the run. The
    deployment of the inbox watch takes no run id: it looks for approved runs itself.

    Raises:
        SettingsError: the server cannot be reached.
    """
    if approval.deployment_id is None or not PREFECT_API_URL.value():
        return None
    deployment_id, arguments = UUID(approval.deployment_id), {}
    try:
        async with get_client() as client:
            starter = await client.read_deployment(deployment_id)
            flow = await client.read_flow(starter.flow_id)
        if flow.name == SCREENING:
            arguments = {"parameters": parameters.model_dump(mode="json", exclude_unset=True)}
        elif not waits_in_inbox:
            return None
        await arun_deployment(deployment_id, parameters=arguments, timeout=0)
    except ObjectNotFound:
        return None
    except Exception as error:  # noqa: BLE001 - whatever the engine raises, the approval stands
        raise SettingsError(
            f"run {approval.run_id} is approved, but the Prefect server of PREFECT_API_URL did not "
            f"take it ({type(error).__name__}): see that it runs, then type "
            f"nightscreen screen --run {approval.run_id}"
        ) from None
    return f"{flow.name}/{starter.name}"
