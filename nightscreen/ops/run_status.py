"""The condition of a run: its state, its numbers and the end in sight, from journal and live signs.

The journal knows what was asked and what it cost; the signs of life of a running process know its
caps and its pace. Where the journal cannot be read, only the signs of life are used.
"""

from __future__ import annotations

import os
import socket
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from nightscreen.calling.run import listed_prices
from nightscreen.client.prices import load_prices
from nightscreen.files.heartbeat import read_vitals
from nightscreen.journal.read_only import pid_of
from nightscreen.journal.runs import KILLED, RUNNING
from nightscreen.ops.suggestions import ENDS, Shortage
from nightscreen.runs.run import deadline_instant
from nightscreen.schemas.approvals import ApprovalState
from nightscreen.schemas.clock import MICROS, span_micros
from nightscreen.schemas.errors import NightscreenError, SettingsError
from nightscreen.schemas.money import naira_words, to_micro
from nightscreen.schemas.prices import max_cost, price_limit
from nightscreen.schemas.stops import StopReason

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nightscreen.config.settings import Settings
    from nightscreen.journal.read_only import Look, RunActivity
    from nightscreen.journal.runs import RunRecord
    from nightscreen.schemas.clock import Clock

SILENT_S = 120
"""Age of a living run's signs from which its process counts as hung."""
HUNG, UNKNOWN = "hung", "unknown"


RECENT = timedelta(days=14)
"""A batch that had no run for longer is nobody's nightly any more."""
_MOST_RUNS = 2_000


def newest_runs(look: Look, clock: Clock) -> list[RunRecord]:
    """Return the newest run of each flow and batch that had one of late, newest first.

    The very newest is among them, however old it is. A run made good by a later run of the same
    flow and batch does not: a failed night is over once the next has completed.
    """
    since = clock() - span_micros(RECENT)
    found: dict[tuple[str, str], RunRecord] = {}
    for run in look.runs.newest(limit=_MOST_RUNS):
        if not found or run.started_at >= since:
            found.setdefault((run.flow, run.batch), run)
    return list(found.values())


def condition_of(
    settings: Settings, run_id: str, look: Look, clock: Clock
) -> dict[str, Any] | None:
    """Return the facts of a run, of the newest where no id is given; None where there is none.

    Instants are microseconds, money is micro-naira.
    """
    newest = None if run_id else next(iter(look.runs.newest(limit=1)), None)
    run = look.runs.find(run_id) if run_id else newest
    if run is None:
        return None
    holder = look.holder_of(run.run_id)
    pulse = look.pulse(run.run_id, alive=holder is not None)
    signs = read_vitals(settings.home, run.run_id)
    facts = _facts(settings, run, pulse, signs, look, clock())
    if run.stop_reason == StopReason.APPROVAL:
        facts["approval"] = _approval(settings, look, run_id=run.run_id, now=clock())
    facts["pid"] = None if holder is None else pid_of(holder)
    if run.state == RUNNING and _is_hung(signs, clock()):
        facts["state"] = HUNG
    return facts


def _approval(settings: Settings, look: Look, *, run_id: str, now: int) -> dict[str, Any] | None:
    """Return the state of the approval that a run ended for; None if the journal has none."""
    found = look.approval_of(run_id)
    if found is None:
        return None
    return {
        "state": found.state(now, valid_micros=span_micros(settings.approval_timeout)),
        "asked_by": found.asked_by,
        "asked_at": found.asked_at,
        "ceiling_micro": found.ceiling_micro,
        "decided_by": found.decided_by,
        "decided_at": found.decided_at,
        "max_spend_micro": found.max_spend_micro,
    }


def _is_hung(signs: Mapping[str, Any] | None, now: int) -> bool:
    """Return whether the signs of a living run stopped coming; only its own machine has them."""
    if signs is None or signs.get("host") != socket.gethostname():
        return False
    return bool(now - signs["at"] > SILENT_S * MICROS)


def _facts(
    settings: Settings,
    run: RunRecord,
    pulse: RunActivity,
    signs: Mapping[str, Any] | None,
    look: Look,
    now: int,
) -> dict[str, Any]:
    report = run.report or {}
    live = signs or {}
    checks = _checks(report, live, pulse)
    spent = look.money.of_run(run.run_id)
    last = max(pulse.last_answer_at or 0, live.get("last_answer_at") or 0) or None
    running = run.state == RUNNING
    waited = running or run.stop_reason == StopReason.OUTAGE
    deadline_at = live.get("deadline_at") if running else _deadline(run)
    return {
        "run_id": run.run_id,
        "flow": run.flow,
        "batch": run.batch,
        "state": run.state,
        "stop_reason": run.stop_reason,
        "held": bool(report.get("held")) and not report.get("released"),
        "approval": None,
        "phase": live.get("phase") if running else None,
        "started_at": run.started_at,
        "finished_at": run.finished_at,
        "signs_at": live.get("at"),
        "last_answer_at": last,
        "silent_since": live.get("silent_since") if running else None,
        "waiting_for": live.get("waiting_for") if waited else None,
        "waiting_since": live.get("waiting_since") if waited else None,
        "checks": checks,
        "spent_micro": spent.spent_micro,
        "cap_micro": run.cap_micro,
        "balance_micro": look.runs.last_balance(),
        "in_doubt": pulse.in_doubt,
        "in_doubt_micro": pulse.in_doubt_micro,
        "finish_at": live.get("finish_at") if running else None,
        "rest_s": None if running else _rest_s(settings, checks, look),
        "deadline_at": deadline_at,
        "folder": run.folder,
        "now": now,
        "shortage": _shortage(settings, run, checks, look, now),
    }


def _checks(
    report: Mapping[str, Any], live: Mapping[str, Any], pulse: RunActivity
) -> dict[str, dict[str, Any]]:
    """Return each check's numbers: live ones of the session that ran last, else the report's."""
    found: dict[str, dict[str, Any]] = {}
    reported, lived = report.get("checks", {}), live.get("checks", {})
    for name in dict.fromkeys((*lived, *reported, *pulse.answered, *pulse.troubles)):
        live_part, part = lived.get(name), reported.get(name)
        left: int | None = None
        if live_part is not None:
            left = (
                live_part["wanted"]
                - live_part["done"]
                + live_part["failed"]
                + live_part["in_doubt"]
            )
        if part is not None and (live_part is None or live.get("phase") != "asking"):
            left = sum(part.get(end, 0) for end in ("pending", "failed", "in_doubt"))
        found[name] = {
            "answered": pulse.answered.get(name, 0),
            "left": left,
            "cap": None if live_part is None else live_part["cap"],
            "in_flight": None if live_part is None else live_part["in_flight"],
            "stopped": None if live_part is None else live_part["stopped"],
            "errors": dict(sorted(pulse.troubles.get(name, {}).items())),
        }
    return found


def _deadline(run: RunRecord) -> int | None:
    """Return the deadline a run was begun with."""
    try:
        return deadline_instant(str(run.parameters.get("deadline") or ""), run.started_at)
    except NightscreenError:
        return None


def _rest_s(
    settings: Settings, checks: Mapping[str, Mapping[str, Any]], look: Look
) -> float | None:
    """Return how many seconds the rest may take, by the slowest check."""
    if any(check["left"] is None for check in checks.values()):
        return None
    each_s = look.runs.seconds_per_answer()
    rests = [
        check["left"] * each_s.get(name, 0.0) / settings.max_in_flight.get(name, 1)
        for name, check in checks.items()
    ]
    return max(rests, default=0.0)


def _shortage(
    settings: Settings,
    run: RunRecord,
    checks: Mapping[str, Mapping[str, Any]],
    look: Look,
    now: int,
) -> Shortage:
    """Return what money the rest of a run needs."""
    try:
        listed = listed_prices(settings)
    except SettingsError:  # a separate finding
        listed = load_prices()
    seen = look.money.prices()
    missing: int | None = 0
    for name, check in checks.items():
        if check["left"] is None or missing is None:
            missing = None
            break
        price = listed.get(name, 0)
        limit = price_limit(price)
        missing += check["left"] * max_cost(price, seen.get(name), limit_micro=limit, now=now)
    day, month = settings.daily_spend_cap, settings.monthly_spend_cap
    today, this_month = look.money.today().bound_micro, look.money.this_month().bound_micro
    return Shortage(
        missing_micro=missing,
        bound_micro=look.money.of_run(run.run_id).bound_micro,
        cap_micro=run.cap_micro,
        day_left_micro=None if day is None else max(0, to_micro(day) - today),
        month_left_micro=None if month is None else max(0, to_micro(month) - this_month),
    )


def from_signs(signs: Mapping[str, Any], now: int) -> dict[str, Any]:
    """Return the state of a run by its signs of life alone, where the journal cannot be read."""
    alive = _is_process(signs.get("pid")) and signs.get("host") == socket.gethostname()
    checks = {
        name: {
            "answered": counts["paid"] + counts["free"],
            "left": counts["wanted"] - counts["done"],
            "cap": counts["cap"],
            "in_flight": counts["in_flight"],
            "stopped": counts["stopped"],
            "errors": counts["troubles"],
        }
        for name, counts in signs["checks"].items()
    }
    return {
        "run_id": signs["run_id"],
        "flow": signs.get("flow", "screen_batch"),
        "batch": signs["batch"],
        "state": RUNNING if alive else UNKNOWN,
        "stop_reason": signs["stop"],
        "held": False,
        "approval": None,
        "phase": signs["phase"],
        "started_at": None,
        "finished_at": None,
        "signs_at": signs["at"],
        "last_answer_at": signs["last_answer_at"],
        "silent_since": signs["silent_since"],
        "waiting_for": signs.get("waiting_for"),
        "waiting_since": signs.get("waiting_since"),
        "checks": checks,
        "spent_micro": sum(counts["cost_micro"] for counts in signs["checks"].values()),
        "cap_micro": None,
        "balance_micro": signs["balance_micro"],
        "in_doubt": sum(counts["in_doubt"] for counts in signs["checks"].values()),
        "in_doubt_micro": None,
        "finish_at": signs["finish_at"] if alive else None,
        "rest_s": None,
        "deadline_at": signs["deadline_at"],
        "folder": "",
        "now": now,
        "shortage": Shortage(),
        "pid": signs.get("pid") if alive else None,
    }


def _is_process(pid: object) -> bool:
    if not isinstance(pid, int):
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


# --- in words ---


def ending(run: Mapping[str, Any]) -> str:
    """Return the state of a run in a few words."""
    state, approval = run["state"], run["approval"]
    if approval is not None and state == "stopped":
        return _approval_words(approval)
    words = {
        "stopped": f"stopped early: {ENDS.get(run['stop_reason'], 'it was stopped')}",
        KILLED: "killed: its process died before it was done; nothing is lost",
        HUNG: "hung: its process lives, but gives no sign of life any more",
        "test_mode": "stopped at once: the service is in test mode and answers with samples",
        UNKNOWN: "unknown: the journal cannot be read; its last signs of life are shown",
    }
    held = ", but held back as implausible" if run["held"] else ""
    return words.get(state, f"{state}{held}")


def _approval_words(approval: Mapping[str, Any]) -> str:
    """Return the state of a run that ended to wait for approval."""
    by = approval["decided_by"]
    words = {
        ApprovalState.WAITING: "waits for approval of its spending; it asked nothing",
        ApprovalState.APPROVED: f"approved up to {naira_words(approval['max_spend_micro'])} by "
        f"{by}, not resumed yet",
        ApprovalState.REFUSED: f"its spending was refused by {by}; it asked nothing",
        ApprovalState.VOID: f"its approval by {by} is void: no run used it in time",
    }
    return words[approval["state"]]


def deadline_words(run: Mapping[str, Any]) -> str | None:
    """Return whether the deadline is met, None where there is none to be met any more."""
    deadline_at, finish_at = run["deadline_at"], run["finish_at"]
    if deadline_at is None or run["state"] in {"completed", "test_mode"}:
        return None
    if run["state"] not in {RUNNING, HUNG}:
        if deadline_at <= run["now"]:
            return "has passed"
        finish_at = None if run["rest_s"] is None else run["now"] + int(run["rest_s"] * MICROS)
    if finish_at is None:
        return "not known yet whether it is met"
    late_s = (finish_at - deadline_at) / MICROS
    return "will be met" if late_s <= 0 else f"will be missed by {late_s / 60:,.0f} min"


def naira_in_doubt(run: Mapping[str, Any]) -> str:
    """Return what may have been charged without our knowing, in words."""
    if not run["in_doubt"]:
        return "nothing"
    amount = run["in_doubt_micro"]
    upto = "" if amount is None else f", up to {naira_words(amount)}"
    return f"{run['in_doubt']:,} calls{upto}"
