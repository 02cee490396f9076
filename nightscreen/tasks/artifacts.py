"""What a run shows of itself in the Prefect UI: quote, summary, charts, tables, and its tags.

Numbers, ids and words only: the engine keeps all of it in clear. What is shown is made in
`report.summary`. A run never fails for what cannot be shown.
"""

from __future__ import annotations

import asyncio
import logging
import re
from typing import TYPE_CHECKING, Any

from prefect import get_client
from prefect.artifacts import acreate_markdown_artifact, acreate_table_artifact
from prefect.context import FlowRunContext

from nightscreen.report.summary import (
    answer_rows,
    api_run_markdown,
    charts_markdown,
    check_rows,
    decision_rows,
    quote_markdown,
    reason_rows,
    summary_markdown,
)
from nightscreen.runs.quoting import quote_document
from nightscreen.runs.screening_run import ScreeningRun

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping
    from uuid import UUID

    from nightscreen.runs.run import Run

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
    """Show how a run ended: its summary; of a screening run its charts and tables as well."""
    if isinstance(run, ScreeningRun):
        await _safely(_show_report(run, report))
        return
    await _safely(
        acreate_markdown_artifact(
            api_run_markdown(report, str(run.folder.path.absolute())),
            key=artifact_key(f"{run.batch} {run.flow}", "summary"),
            description=f"How run {run.run_id} ended",
        )
    )


async def _show_report(run: ScreeningRun, report: Mapping[str, Any]) -> None:
    batch, named = report["batch"], f"run {report['run_id']}"
    await acreate_markdown_artifact(
        summary_markdown(report, str(run.folder.path.absolute())),
        key=artifact_key(batch, "summary"),
        description=f"How {named} ended, and what to do next",
    )
    charts = await asyncio.to_thread(charts_markdown, report)
    if charts is not None:
        await acreate_markdown_artifact(
            charts, key=artifact_key(batch, "charts"), description=f"Charts of {named}"
        )
    tables = (
        ("decisions", decision_rows(report)),
        ("reasons", reason_rows(report)),
        ("checks", check_rows(report)),
        ("answers", answer_rows(report)),
    )
    for name, rows in tables:
        await acreate_table_artifact(
            rows,
            key=artifact_key(batch, name),
            description=f"{name.capitalize()} of {named}: numbers only",
        )


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
