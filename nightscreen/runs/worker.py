"""A worker of a run: another process that claims lookups of the run's table and asks them.

It opens only the journal and a caller. The run's own process has decided what is asked, in which
order, for how much and until when; it asks too, and ends the run. The engine starts workers.
"""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nightscreen.calling.asking import Asking
from nightscreen.calling.run import Run
from nightscreen.calling.wallet import Wallet
from nightscreen.client.response_rules import load_response_rules
from nightscreen.config.parameters import ScreenBatch
from nightscreen.config.settings import max_ages, overridden
from nightscreen.files.run_folder import RunFolder
from nightscreen.planning.freshness import Freshness
from nightscreen.runs.run import open_journal, require_service, stops_of
from nightscreen.schemas.calls import Caps
from nightscreen.schemas.checks import Purpose
from nightscreen.schemas.clock import Clock, system_clock
from nightscreen.schemas.errors import JournalError
from nightscreen.schemas.stops import StopReason

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nightscreen.client.transport import Transport
    from nightscreen.config.settings import Settings
    from nightscreen.journal import Journal
    from nightscreen.journal.lookups import LookupRun
    from nightscreen.journal.runs import RunRecord

LOOK_S = 0.5  # how often the processes of a run report their progress and check for stops

BALANCE_MARGIN = 2
"""How many times a full cap of every check may be charged between two looks at the balance."""

_CURRENT_FIGURES = ("wanted", "cap", "in_flight")
"""Figures of a check's progress that are current values, not totals."""


def open_worker(
    run_id: str,
    settings: Settings,
    *,
    transport: Transport | None = None,
    clock: Clock = system_clock,
) -> Asking | None:
    """Open a run to ask its lookups; None if it no longer asks any.

    Raises:
        SettingsError: this machine lacks the service's address or key.
        JournalError: the journal of this machine does not know the run.
    """
    require_service(settings, quote_only=False)
    with ExitStack() as opened:
        journal = open_journal(settings, opened, clock)
        record = journal.runs.find(run_id)
        if record is None:
            raise JournalError(
                f"the journal of this machine does not know run {run_id}: machines that share a "
                "run need one journal, on PostgreSQL (NIGHTSCREEN_JOURNAL_URL), or on one machine "
                "one HOME"
            )
        table = journal.lookups.find(run_id)
        if table is None or not journal.runs.held_elsewhere(run_id):
            return None
        run = _run_of_worker(record, settings, journal, table)
        ages = max_ages(
            Purpose(run.purpose),
            overridden(settings.freshness, getattr(run.parameters, "freshness", ())),
        )
        # how old an answer may be, as the run's own process has it
        freshness = Freshness(ages, table.terms["at"], table.terms["since"])
        asking = Asking(run=run, transport=transport, table=table, freshness=freshness, staged=True)
        run.on_close = opened.pop_all()
        return asking


def _run_of_worker(
    record: RunRecord, settings: Settings, journal: Journal, table: LookupRun
) -> Run:
    parameters, terms = ScreenBatch.model_validate(record.parameters), table.terms
    floor = terms["floor_micro"]
    own: dict[str, Any] = {
        name: tuple(map(tuple, value)) if isinstance(value, list) else value
        for name, value in terms["caps"].items()
    }
    caps = Caps(**own)  # the run's, whatever the settings of this machine say
    stops = stops_of(journal, settings, table.checks, deadline_at=terms["deadline_at"])
    wallet = Wallet(
        stops,
        floor_micro=floor and floor + BALANCE_MARGIN * terms["in_flight_micro"],
        price_limits=dict(caps.price_limits),
    )
    return Run(
        run_id=record.run_id,
        flow=record.flow,
        batch=record.batch,
        purpose=record.purpose,
        parameters=parameters,
        settings=settings,
        journal=journal,
        folder=RunFolder(Path(record.folder)),
        stops=stops,
        wallet=wallet,
        caps=caps,
        started_at=record.started_at,
        is_new=False,
        response_rules=load_response_rules(settings.own_table("manners")),
    )


async def close_worker(asking: Asking) -> None:
    """Let calls in flight settle, report them, and leave the rest to the other processes."""
    if asking.leaves:
        asking.run.stops.stop(StopReason.CANCELLED)
    await asking.drain()
    await sync_with_run(asking)
    await asking.close()


async def sync_with_run(asking: Asking) -> None:
    """Report this worker's progress once, and stop it if the run has ended."""
    run, askers = asking.run, asking.run.journal.askers
    if not asking.leaves:
        await asking.sync_stops()
    await asyncio.to_thread(askers.report, run.run_id, numbers_of(run))
    if not await asyncio.to_thread(run.journal.runs.held_elsewhere, run.run_id):
        run.stops.stop(StopReason.CANCELLED)


# --- the figures of all processes ---


def numbers_of(run: Run) -> dict[str, Any]:
    """Return a process's figures so far; money in micro-naira."""
    stops = run.stops
    return {
        "checks": {check: asdict(each) for check, each in stops.progress.items()},
        "errors": [[check, kind, number] for (check, kind), number in stops.errors.items()],
        "answered": stops.answered,
        "balance_micro": run.wallet.balance_micro,
        "notices": list(stops.notices),
    }


@dataclass(slots=True)
class Totals:
    """Adds the figures of workers to those of the run's own process."""

    _last: dict[str, dict[str, Any]] = field(default_factory=dict)

    async def look(self, asking: Asking) -> None:
        """Add the workers' progress since the last look, and exchange stops."""
        await asking.sync_stops()
        others = await asyncio.to_thread(asking.run.journal.askers.others, asking.run.run_id)
        for holder, numbers in others.items():
            if numbers:
                self._take(asking.run, holder, numbers)
        asking.run.stops.weigh()

    def _take(self, run: Run, holder: str, numbers: Mapping[str, Any]) -> None:
        stops = run.stops
        last = self._last.get(holder, {})
        for check, counts in numbers["checks"].items():
            mine, before = stops.progress[check], last.get("checks", {}).get(check, {})
            for name in counts.keys() - set(_CURRENT_FIGURES):
                setattr(mine, name, getattr(mine, name) + counts[name] - before.get(name, 0))
        known = {(check, kind): number for check, kind, number in last.get("errors", [])}
        for check, kind, number in numbers["errors"]:
            stops.errors[(check, kind)] += number - known.get((check, kind), 0)
        answered = numbers["answered"] - last.get("answered", 0)
        stops.answered += answered
        if answered and numbers["balance_micro"] is not None:
            run.wallet.balance_micro = numbers["balance_micro"]
        stops.notices += [each for each in numbers["notices"] if each not in stops.notices]
        self._last[holder] = dict(numbers)
