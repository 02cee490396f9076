"""Automations of a Prefect server: who is told of what, and what becomes of runs that died.

They are found again by name and brought up to date, so that installing twice is installing once.
What is worth a page is decided in `ops.alerts`, what stands in an event in `tasks.events`.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from prefect import get_client
from prefect.client.schemas.objects import StateType
from prefect.events.actions import ChangeFlowRunState, SendNotification
from prefect.events.schemas.automations import AutomationCore, EventTrigger, Posture
from prefect.exceptions import ObjectNotFound
from prefect.settings import get_current_settings

from nightscreen.schemas.errors import UsageError
from nightscreen.tasks.events import MORNING, PAGE

if TYPE_CHECKING:
    from uuid import UUID

    from prefect.client.orchestration import PrefectClient

FLOWS = (
    *("screen-batch", "pull-transactions", "pull-accounts", "request-bvns", "confirm-bvns"),
    *("offer-loans", "track-loans"),
)
"""Flows whose runs must begin in time, and are marked as dead with their process."""
DEAD, PAGES, LATE, SUMMARY = (
    "nightscreen: dead runs",
    "nightscreen: pages",
    "nightscreen: not started",
    "nightscreen: morning summary",
)
LATE_S = 600
"""How long a scheduled run may be late before a person is woken."""
MISSED = 3
"""Signs of life of the engine that a run may miss before it counts as dead."""
_ENDS = ("Completed", "Failed", "Cancelled", "Crashed")
_BEGINS = ("Pending", "Running", "Cancelling", *_ENDS)
_OURS = {"prefect.resource.role": "flow", "prefect.resource.name": list(FLOWS)}
_RUNS = {"prefect.resource.id": "prefect.flow-run.*"}

PAGE_BODY = """\
{{ event.payload.says }}
run: {{ event.payload.run_id }} of {{ event.resource.name }}
type: {{ event.payload.type }}
"""
LATE_BODY = """\
A scheduled run has not started: {{ event.resource.name }}
type: nightscreen doctor
"""
SUMMARY_BODY = "{{ event.payload.text }}"


@dataclass(frozen=True, slots=True)
class Installed:
    """An automation on the server; `made` where it was not there before."""

    name: str
    made: bool


def dead_runs(silence_s: float) -> AutomationCore:
    """Return the automation that marks a run as crashed once its heartbeats stop."""
    beat = "prefect.flow-run.heartbeat"
    return AutomationCore(
        name=DEAD,
        description="A run whose process died is marked as crashed, so that nothing waits for it.",
        trigger=EventTrigger(
            match=_RUNS,
            match_related=_OURS,
            after={beat},
            expect={beat, *(f"prefect.flow-run.{end}" for end in _ENDS)},
            for_each={"prefect.resource.id"},
            posture=Posture.Proactive,
            threshold=1,
            within=timedelta(seconds=silence_s),
        ),
        actions=[
            ChangeFlowRunState(
                state=StateType.CRASHED,
                name="Crashed",
                message="no sign of life any more; ask nightscreen doctor, then resume the run",
            )
        ],
    )


def pages(block_id: UUID) -> AutomationCore:
    """Return the automation that wakes a person."""
    return AutomationCore(
        name=PAGES,
        description="What needs a person now: see docs/operate.md.",
        trigger=EventTrigger(
            match={"prefect.resource.id": "nightscreen.batch.*"},
            expect={f"{PAGE}.*"},
            posture=Posture.Reactive,
            threshold=1,
        ),
        actions=[
            SendNotification(
                block_document_id=block_id,
                subject="nightscreen needs you: {{ event.payload.says }}",
                body=PAGE_BODY,
            )
        ],
    )


def not_started(block_id: UUID, late_s: float) -> AutomationCore:
    """Return the automation that wakes a person where a scheduled run has not started."""
    return AutomationCore(
        name=LATE,
        description="A scheduled run that nobody took up.",
        trigger=EventTrigger(
            match=_RUNS,
            match_related=_OURS,
            after={"prefect.flow-run.Late"},
            expect={f"prefect.flow-run.{begin}" for begin in _BEGINS},
            for_each={"prefect.resource.id"},
            posture=Posture.Proactive,
            threshold=1,
            within=timedelta(seconds=late_s),
        ),
        actions=[
            SendNotification(
                block_document_id=block_id,
                subject="nightscreen needs you: a scheduled run has not started",
                body=LATE_BODY,
            )
        ],
    )


def summary(block_id: UUID) -> AutomationCore:
    """Return the automation that passes the morning summary on."""
    return AutomationCore(
        name=SUMMARY,
        description="What happened in the night, sent by the deployment morning-summary/morning.",
        trigger=EventTrigger(
            match={"prefect.resource.id": "nightscreen.*"},
            expect={MORNING},
            posture=Posture.Reactive,
            threshold=1,
        ),
        actions=[
            SendNotification(
                block_document_id=block_id,
                subject="nightscreen, the night of {{ event.payload.night }}",
                body=SUMMARY_BODY,
            )
        ],
    )


async def install(
    *,
    page_block: str = "",
    summary_block: str = "",
    silence_s: float | None = None,
    late_s: float = LATE_S,
) -> list[Installed]:
    """Make or bring up to date the automations on the server of PREFECT_API_URL.

    Args:
        page_block: notification block for pages, as `slack-webhook/on-call`; without one nobody
            is reported.
        summary_block: the same for the morning summary.
        silence_s: silence after which a run counts as dead; by default as long as three heartbeats.
        late_s: how long a scheduled run may be late before a person is woken.

    Raises:
        UsageError: a block is not there.
    """
    async with get_client() as client:
        wanted = [dead_runs(silence_s if silence_s is not None else _silence_s())]
        if page_block:
            block_id = await _block(client, page_block)
            wanted += [pages(block_id), not_started(block_id, late_s)]
        if summary_block:
            wanted.append(summary(await _block(client, summary_block)))
        return [await _put(client, each) for each in wanted]


def _silence_s() -> float:
    """Return how long a run may be silent: runs and this command must have the same setting."""
    beat_s = get_current_settings().flows.heartbeat_frequency
    if beat_s is None:
        raise UsageError(
            "heartbeats are turned off: unset PREFECT_FLOWS_HEARTBEAT_FREQUENCY or set it to 30, "
            "here and where the worker runs"
        )
    return float(MISSED * beat_s)


async def _block(client: PrefectClient, named: str) -> UUID:
    slug, _, name = named.partition("/")
    try:
        document = await client.read_block_document_by_name(name, block_type_slug=slug)
    except ObjectNotFound:
        raise UsageError(
            f"there is no notification block {named} on the server: make it in the UI under "
            "Blocks, and name it as its type and name, such as slack-webhook/on-call"
        ) from None
    return document.id


async def _put(client: PrefectClient, wanted: AutomationCore) -> Installed:
    """Make an automation, or bring the one of its name up to date; doubles are removed."""
    found = await client.read_automations_by_name(wanted.name)
    if not found:
        await client.create_automation(wanted)
        return Installed(wanted.name, made=True)
    whole = AutomationCore.model_validate(wanted.model_dump(exclude={"owner_resource"}))
    await client.update_automation(found[0].id, whole)
    for double in found[1:]:
        await client.delete_automation(double.id)
    return Installed(wanted.name, made=False)
