"""What a run shows of itself in the Prefect UI: its quote, its summary and its tags.

Numbers, ids and words only: the engine keeps all of it in clear. What is shown is made in
`report.summary`. A run never fails for what cannot be shown.
"""

from __future__ import annotations

import asyncio
import logging
import re
from typing import TYPE_CHECKING, Any

from prefect import get_client
from prefect.artifacts import acreate_markdown_artifact
from prefect.context import FlowRunContext

from nightscreen.report.summary import api_run_markdown, quote_markdown, summary_markdown
from nightscreen.runs.quoting import quote_document
from nightscreen.runs.screening_run import ScreeningRun

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping
    from uuid import UUID

    from nightscreen.calling.run import Run

_NOT_IN_KEYS = re.compile(r"[^a-z0-9]+")
_MOST_LETTERS = 60


def artifact_key(batch: str, what: str) -> str:
    """Return the key under which artifacts of a batch follow each other, night by night."""
    slug = _NOT_IN_KEYS.sub("-", batch.casefold())[:_MOST_LETTERS].strip("-")
    return f"{slug or 'batch'}-{what}"


async def show_quote(run: ScreeningRun) -> None:
    """Show what a run is expected to cost, before anybody approves it."""
    quote = quote_document(run)
    await _safely(
        acreate_markdown_artifact(
            quote_markdown(quote),
            key=artifact_key(run.batch, "quote"),
            description=f"What run {run.run_id} is expected to cost",
        )
    )


async def show_report(run: Run, report: Mapping[str, Any]) -> None:
    """Show how a run ended, and what to do next."""
    folder = str(run.folder.path.absolute())
    if isinstance(run, ScreeningRun):
        text, key = summary_markdown(report, folder), artifact_key(run.batch, "summary")
    else:
        text = api_run_markdown(report, folder)
        key = artifact_key(f"{run.batch} {run.flow}", "summary")
    about = f"How run {run.run_id} ended, and what to do next"
    await _safely(acreate_markdown_artifact(text, key=key, description=about))


async def tag_run(*tags: str) -> None:
    """Add tags to the flow run that is under way, so that it is found by them in the UI."""
    context = FlowRunContext.get()
    if context is None or context.flow_run is None:
        return
    await _safely(_tag(context.flow_run.id, tags))


async def _tag(flow_run_id: UUID, tags: tuple[str, ...]) -> None:
    async with get_client() as client:
        now = (await client.read_flow_run(flow_run_id)).tags
        kept = [tag for tag in now if tag not in tags]
        await client.update_flow_run(flow_run_id, tags=[*kept, *tags])


def ending_tags(report: Mapping[str, Any]) -> tuple[str, ...]:
    """Return how a run ended, as tags: its state, and why it stopped or is held back."""
    held = report["state"] == "completed" and not report["publishable"]
    each = (report["state"], report["stop_reason"], "held back" if held else None)
    return tuple(tag for tag in each if tag)


async def _safely(showing: Coroutine[Any, Any, object]) -> None:
    """Show something; an engine that cannot be reached does not stop the run."""
    task = asyncio.get_running_loop().create_task(showing)
    await asyncio.wait([task])
    if not task.cancelled() and task.exception() is not None:
        kind = type(task.exception()).__name__
        logging.getLogger(__name__).warning("an artifact could not be shown: %s", kind)
