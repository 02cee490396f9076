"""Diagnosis: the state of a run and its surroundings, and what to type next.

Everything here works when things are broken: a part that cannot be looked at is reported in words,
and the others are looked at all the same. No engine; no paid call is ever made. Nothing is changed.
`suggestions` says what to do about each stop; `cli.doctor` prints it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from nightscreen.client.connectivity import Knock, knock, reach
from nightscreen.client.network import Network
from nightscreen.files.heartbeat import newest_signs, read_vitals
from nightscreen.journal.runs import KILLED, RUNNING
from nightscreen.ops.health_checks import (
    HOME_DISK,
    SCHEDULE,
    WRONG,
    HealthFinding,
    find_journal,
    find_surroundings,
    journal_trouble,
)
from nightscreen.ops.run_status import (
    HUNG,
    UNKNOWN,
    condition_of,
    from_signs,
    newest_runs,
)
from nightscreen.ops.suggestions import (
    DOCTOR,
    Again,
    Remedy,
    for_approval,
    for_held,
    for_hung,
    for_killed,
    for_stop,
    for_test_mode,
)
from nightscreen.schemas.clock import LAGOS, Clock, system_clock, to_instant
from nightscreen.schemas.errors import NightscreenError
from nightscreen.schemas.stops import refusals

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from nightscreen.config.settings import Settings
    from nightscreen.journal.read_only import Look


@dataclass(slots=True)
class Diagnosis:
    """The diagnosis; instants in microseconds, money in micro-naira.

    Attributes:
        run: the run's facts (`run_status`), None where there is none; where none was named, the
            one that needs a person most among the newest of each flow and batch.
        others: the facts of those others, newest first.
        safe: a run may be started or resumed now; `why_not` says why not.
        remedy: what to do next, None where all is well.
        exit_status: as the command ends: 0 nothing to do, 2 something must be fixed before any run,
            3 a run stopped and can be resumed, 4 the service is in test mode.
    """

    run: dict[str, Any] | None = None
    others: list[dict[str, Any]] = field(default_factory=list)
    findings: list[HealthFinding] = field(default_factory=list)
    safe: bool = True
    why_not: str | None = None
    remedy: Remedy | None = None
    exit_status: int = 0


def diagnose(
    settings: Settings,
    run_id: str = "",
    *,
    clock: Clock = system_clock,
    reaching: Callable[[str], str | None] | None = None,
    knocking: Knock | None = None,
    more: tuple[HealthFinding, ...] = (),
) -> Diagnosis:
    """Look at a run, or at the newest of each flow and batch, and at what they need.

    Args:
        settings: as a run would have them.
        run_id: the run; empty for the newest of each flow and batch.
        clock: the present instant.
        reaching: tries the service's address and returns what is in the way; None: over the
            settings' network.
        knocking: makes a free request there with the key, and returns the trouble it met.
        more: what was found out elsewhere, such as about the engine.
    """
    found = Diagnosis()
    _find_run(settings, run_id, clock, found)
    network = Network.of(settings)
    reaching = reaching or partial(reach, network=network)
    knocking = knocking or partial(knock, network=network)
    found.findings += find_surroundings(settings, found.run, reaching, knocking)
    found.findings += more
    _conclude(found, run_id)
    return found


def _find_run(settings: Settings, run_id: str, clock: Clock, found: Diagnosis) -> None:
    """Find the run in the journal; where that cannot be read, by its signs of life."""
    look, found.findings = find_journal(settings, clock)
    if look is not None:
        with look:
            try:
                if run_id:
                    found.run = condition_of(settings, run_id, look, clock)
                else:
                    _find_newest(settings, look, clock, found)
            except NightscreenError as error:
                found.findings = [journal_trouble(settings, error)]
            else:
                return
    if any(finding.standing == WRONG for finding in found.findings):
        home = settings.home
        signs = read_vitals(home, run_id) if run_id else newest_signs(home)
        found.run = None if signs is None else from_signs(signs, clock())


def _find_newest(settings: Settings, look: Look, clock: Clock, found: Diagnosis) -> None:
    """Put the run first that needs a person most; among equals the newest."""
    known = (condition_of(settings, run.run_id, look, clock) for run in newest_runs(look, clock))
    runs = [run for run in known if run is not None]
    if runs:
        found.run = min(runs, key=_urgency)
        found.others = [run for run in runs if run is not found.run]


def _urgency(run: Mapping[str, Any]) -> int:
    """Return how soon a person must see to a run; 0 is first."""
    order = (HUNG, KILLED, "test_mode", "stopped")
    if run["state"] in order:
        return order.index(run["state"])
    return len(order) + (0 if run["held"] else 1 if run["state"] == RUNNING else 2)


def _conclude(found: Diagnosis, asked: str) -> None:
    """Decide what to do next: what is broken first, then what the run needs."""
    found.remedy, found.exit_status = _for_run(found, asked)
    if found.run is not None and found.run["state"] in {RUNNING, HUNG}:
        pid = found.run["pid"]
        who = f"process {pid}" if pid is not None else "another process"
        found.safe, found.why_not = False, f"{who} is at work on it"
    missed = next((finding for finding in found.findings if finding.name == SCHEDULE), None)
    if missed is not None and found.exit_status == 0:
        found.exit_status = 3
        found.remedy = missed.remedy
    wrong = [finding for finding in found.findings if finding.standing == WRONG]
    if wrong:
        _fix_first(found, min(wrong, key=lambda finding: finding.name != HOME_DISK))


def _fix_first(found: Diagnosis, wrong: HealthFinding) -> None:
    """Put what is broken before what the run needs; a full disk breaks the journal with it."""
    found.exit_status = 2
    if found.safe:
        found.safe, found.why_not = False, f"no run can start: {wrong.name} must be fixed"
    if wrong.remedy is not None:
        found.remedy = _first(wrong.remedy, found.remedy)


def _first(mend: Remedy, then: Remedy | None) -> Remedy:
    """Fix what is wrong first; if that needs no command, go on with the run."""
    if mend.command:
        return mend
    if then is None:
        return Remedy(mend.first, DOCTOR)
    return Remedy("; then ".join(part for part in (mend.first, then.first) if part), then.command)


def _for_run(found: Diagnosis, asked: str) -> tuple[Remedy | None, int]:
    """Return what the run needs, and the exit status."""
    run = found.run
    if run is None:
        if not asked:
            return Remedy("", "nightscreen quote FILE"), 0
        first = f"there is no run {asked} in this journal: it never started, or HOME is another"
        return Remedy(first, "nightscreen runs list"), 2
    run_id = run["run_id"]
    again = Again(run_id, run["flow"], _kept(run))
    service = next((finding for finding in found.findings if finding.name == "service"), None)
    refused = refusals(
        (name, trouble) for name, check in run["checks"].items() for trouble in check["errors"]
    )
    table: dict[str, tuple[Remedy | None, int]] = {
        RUNNING: (Remedy("", f"{DOCTOR} {run_id}"), 0),
        HUNG: (for_hung(again, run["pid"]), 3),
        KILLED: (for_killed(again), 3),
        "test_mode": (for_test_mode(again), 4),
        "stopped": (
            for_stop(
                again,
                run["stop_reason"],
                run["shortage"],
                refused=refused,
                service=None if service is None else service.remedy,
            )
            if run["approval"] is None
            else for_approval(again, run["approval"]["state"]),
            3,
        ),
        "completed": (for_held(run_id), 3) if run["held"] else (None, 0),
        UNKNOWN: (Remedy("", f"{DOCTOR} {run_id}"), 2),
    }
    return table[run["state"]]


def _kept(run: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the deadline as an option if it is still in the future: a resumed run has no other."""
    if run["deadline_at"] is None or run["deadline_at"] <= run["now"]:
        return ()
    return ("--deadline", f"{to_instant(run['deadline_at']).astimezone(LAGOS):%Y-%m-%dT%H:%M}")
