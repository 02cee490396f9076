"""A run that was approved is resumed by the deployment that started it.

What is asked and granted is in `runs.approval`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from prefect import get_client
from prefect.deployments import arun_deployment
from prefect.exceptions import ObjectNotFound
from prefect.settings import PREFECT_API_URL

from nightscreen.schemas.errors import SettingsError

if TYPE_CHECKING:
    from nightscreen.config.parameters import ScreenBatch
    from nightscreen.schemas.approvals import Approval

SCREENING = "screen-batch"


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
