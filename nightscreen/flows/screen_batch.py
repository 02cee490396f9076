"""Screen a batch: file in, metered lookups, enriched Parquet and an account of every naira out.

`screen_part` is one worker of such a run, on any machine of a work pool; nobody starts it by hand.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from prefect.client.schemas.objects import State

from nightscreen.config.parameters import ScreenBatch
from nightscreen.config.settings import read_settings
from nightscreen.runs.screening import run_screening
from nightscreen.schemas.errors import InputError
from nightscreen.schemas.naming import batch_name, contains_identifier
from nightscreen.tasks.engine_run import EngineRunner, ask_as_worker, named
from nightscreen.tasks.monitoring import paging_false_starts
from nightscreen.tasks.own_flow import flow

_WILDCARDS = frozenset("*?[")


def batch_and_purpose(parameters: dict[str, Any]) -> str:
    """Name a flow run by its batch and purpose; neither holds personal data."""
    source = parameters.get("input")
    batch = parameters.get("batch") or (batch_name(Path(source)) if source else "batch")
    batch, purpose = batch.rstrip("-*"), str(parameters.get("purpose", "portfolio"))
    return batch if purpose in batch else f"{batch}-{purpose}"


@flow(name="screen-batch", flow_run_name=named(batch_and_purpose))
async def screen_batch(parameters: ScreenBatch) -> dict[str, Any] | State[Any]:
    """Screen a batch of customers and return its report.

    Raises:
        UsageError: parameters, settings or input are wrong; nothing was spent.
        JournalError: the journal cannot be used.
    """
    source = parameters.input
    batch = parameters.batch or (batch_name(Path(source)) if source else "")
    runner = EngineRunner()
    with paging_false_starts(batch, parameters.run, lambda: runner.has_begun):
        settings = read_settings()
        parameters = await asyncio.to_thread(newest_input, parameters)
        report = await run_screening(parameters, settings, runner=runner)
    return await runner.ended(report)


def newest_input(parameters: ScreenBatch) -> ScreenBatch:
    """Return the parameters of a scheduled run with a pattern replaced by the newest file.

    On the command line the shell expands patterns.

    Raises:
        InputError: no file matches the pattern, or the newest one's name holds an identifier.
    """
    pattern = Path(parameters.input)
    if pattern.exists() or not _WILDCARDS.intersection(parameters.input):
        return parameters
    relative = pattern.relative_to(pattern.anchor) if pattern.anchor else pattern
    files = [path for path in Path(pattern.anchor).glob(str(relative)) if path.is_file()]
    if not files:
        raise InputError(
            f"no file matches {parameters.input}, seen from {Path.cwd()}: has tonight's extract "
            "arrived, does the pattern fit its name, or did the watch of the inbox screen it "
            "already (nightscreen runs list)?"
        )
    newest = max(files, key=lambda path: (path.stat().st_mtime_ns, path.name))
    if contains_identifier(newest.name):
        raise InputError(
            f"the newest file that matches {parameters.input} has what looks like a customer's "
            "number or email address in its name, which is shown everywhere: rename it"
        )
    return parameters.model_copy(update={"input": str(newest)})


@flow(name="screen-part")
async def screen_part(run_id: str, part: int) -> dict[str, int]:  # noqa: ARG001 - names the flow run
    """Claim lookups of a run and ask them until none are left; return attempts made, by check.

    Args:
        run_id: the run, begun by another process.
        part: the number of this worker, from 1.

    Raises:
        SettingsError: this machine lacks the service's address or key.
        JournalError: this machine's journal does not know the run.
    """
    return await ask_as_worker(run_id)
