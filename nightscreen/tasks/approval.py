"""Approval of spending as a flow meets it: used where it was given, asked for where it was not.

What is asked and granted is in `runs.approval`. A run that waits for approval ends: nothing here
waits but for a person who sits at this process's terminal.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING
from uuid import UUID

from prefect import get_client, get_run_logger
from prefect.deployments import arun_deployment
from prefect.exceptions import ObjectNotFound
from prefect.runtime import deployment, flow_run
from prefect.settings import PREFECT_API_URL

from nightscreen.files.person import user_name
from nightscreen.runs.approval import may_spend
from nightscreen.schemas.errors import SettingsError
from nightscreen.tasks.terminal import AT_TERMINAL

if TYPE_CHECKING:
    from nightscreen.config.parameters import ScreenBatch
    from nightscreen.runs.screening_run import ScreeningRun
    from nightscreen.schemas.approvals import Approval

SCREENING = "screen-batch"


async def approved(run: ScreeningRun) -> bool:
    """Tell whether a run may spend; where it may not, it is stopped and its request written."""
    terminal, run_id = AT_TERMINAL.get(), run.run_id
    started_by = deployment.id or flow_run.parent_deployment_id
    named = f"deployment {deployment.name}" if deployment.name else user_name()
    ask_here = None if terminal is None else terminal.ask
    given = await asyncio.to_thread(
        may_spend, run, by=named, deployment_id=started_by, ask_here=ask_here
    )
    if not given:
        get_run_logger().info("run %s waits for approval: nightscreen approve %s", run_id, run_id)
    return given


async def resume_in_deployment(
    approval: Approval, parameters: ScreenBatch, *, waits_in_inbox: bool
) -> str | None:
    """Have the deployment that started a run resume it; return the deployment's name.

    Args:
        approval: of the run, with the deployment.
        parameters: those that resume the run.
        waits_in_inbox: the run's file waits in the inbox. Its watch takes no run: it looks for what
            was approved by itself.

    Returns:
        None where no server is configured, or the deployment is gone or does not take the run.

    Raises:
        SettingsError: the server cannot be reached.
    """
    if approval.deployment_id is None or not PREFECT_API_URL.value():
        return None
    try:
        return await _start(UUID(approval.deployment_id), parameters, waits_in_inbox=waits_in_inbox)
    except ObjectNotFound:
        return None
    except Exception as error:  # noqa: BLE001 - whatever the engine raises, the approval stands
        raise SettingsError(
            f"run {approval.run_id} is approved, but the Prefect server of PREFECT_API_URL did not "
            f"take it ({type(error).__name__}): see that it runs, then type "
            f"nightscreen screen --run {approval.run_id}"
        ) from None


async def _start(
    deployment_id: UUID, parameters: ScreenBatch, *, waits_in_inbox: bool
) -> str | None:
    async with get_client() as client:
        found = await client.read_deployment(deployment_id)
        flow = await client.read_flow(found.flow_id)
    given = {}
    if flow.name == SCREENING:
        given = {"parameters": parameters.model_dump(mode="json", exclude_unset=True)}
    elif not waits_in_inbox:
        return None
    await arun_deployment(deployment_id, parameters=given, timeout=0)
    return f"{flow.name}/{found.name}"
