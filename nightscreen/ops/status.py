"""The status of a run and of a night: states, numbers and the expected end.

The journal holds lookups and costs; the vital signs of a running process hold its caps and speed.
"""

from __future__ import annotations

import socket
from datetime import timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from nightscreen.client.prices import load_prices
from nightscreen.journal.approvals import Approvals
from nightscreen.journal.audit import Audit
from nightscreen.journal.holders import pid_of
from nightscreen.journal.opening import open_read_only
from nightscreen.journal.runs import KILLED, RUNNING
from nightscreen.ops.vitals import PLANNING, READING, read_vitals
from nightscreen.report.format import facts
from nightscreen.schemas.approvals import ApprovalState
from nightscreen.schemas.calls import NOT_ENDED, LookupStatus
from nightscreen.schemas.clock import (
    DAY_MICROS,
    MICROS,
    deadline_instant,
    span_micros,
    spending_day,
    system_clock,
)
from nightscreen.schemas.errors import JournalError, NightscreenError, SettingsError
from nightscreen.schemas.money import max_cost, naira_text, naira_words, price_limit, to_micro
from nightscreen.schemas.stops import WHY, StopReason

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from nightscreen.config.settings import Settings
    from nightscreen.journal import Journal
    from nightscreen.journal.runs import RunActivity, RunRecord
    from nightscreen.schemas.approvals import Approval
    from nightscreen.schemas.clock import Clock

SILENT_S = 120  # if a living run's vital signs are older than this, its process counts as hung
HUNG = "hung"
RECENT = timedelta(days=14)  # a batch without a run for longer is not a nightly one
_MOST_RUNS = 2_000
DAY_BEGINS = "which begins at noon in Lagos"
ENDS: Mapping[str, str] = {**WHY, StopReason.BUDGET: "a spending cap was reached"}
COMMANDS: Mapping[str, str] = {
    "screen_batch": "nightscreen screen",
    "pull_transactions": "nightscreen transactions pull",
    "pull_accounts": "nightscreen transactions pull --accounts",
    "request_bvns": "nightscreen bvn request",
    "confirm_bvns": "nightscreen bvn confirm",
    "offer_loans": "nightscreen loans offer",
    "track_loans": "nightscreen loans track",
}
"""The command of each flow whose runs can be resumed."""


def resume_command(run_id: str, flow: str, *options: str) -> str:
    """Return the command that resumes a run; empty for a flow whose runs cannot be resumed."""
    command = COMMANDS.get(flow)
    return "" if command is None else " ".join((command, "--run", run_id, *options))


def newest_runs(journal: Journal, clock: Clock) -> list[RunRecord]:
    """Return the newest run of each flow and batch with a `RECENT` run, newest first.

    The newest run of all is included however old it is. Earlier runs of the same flow and batch are
    not: a failed night no longer matters once the next has completed.
    """
    since = clock() - span_micros(RECENT)
    newest: dict[tuple[str, str], RunRecord] = {}
    for run in journal.runs.newest(limit=_MOST_RUNS):
        if not newest or run.started_at >= since:
            newest.setdefault((run.flow, run.batch), run)
    return list(newest.values())


def state_of(home: Path, run: RunRecord, now: int) -> str:
    """Return the state of a run; `hung` if its process lives but its vital signs are too old.

    Only the machine that it runs on has its vital signs.
    """
    signs = read_vitals(home, run.run_id) if run.state == RUNNING else None
    return _state(run, signs or {}, now)


def _state(run: RunRecord, signs: Mapping[str, Any], now: int) -> str:
    if run.state != RUNNING or signs.get("host") != socket.gethostname():
        return run.state
    return HUNG if now - signs["at"] > SILENT_S * MICROS else RUNNING


def standing_of(
    run: RunRecord, settings: Settings, journal: Journal, now: int, approval: Approval | None
) -> dict[str, Any]:
    """Return a run's state, why and by whom it was stopped, and what it waits for.

    `approval` is the newest one of a run that stopped for it; None for other runs.
    """
    report, signs = run.report or {}, dict[str, Any]()
    if run.state == RUNNING or run.stop_reason == StopReason.OUTAGE:
        signs = read_vitals(settings.home, run.run_id) or {}
    return {
        "state": _state(run, signs, now),
        "stop_reason": run.stop_reason,
        "stopped_by": Audit(journal).stopped_by(run),
        "held": bool(report.get("held")) and not report.get("released"),
        "approval": None
        if approval is None
        else {
            "state": approval.state(now, valid_micros=span_micros(settings.approval_timeout)),
            "asked_by": approval.asked_by,
            "asked_at": approval.at,
            "ceiling_micro": approval.ceiling_micro,
            "decided_by": approval.decided_by,
            "decided_at": approval.decided_at,
            "max_spend_micro": approval.max_spend_micro,
        },
        "waiting_for": signs.get("waiting_for"),
        "waiting_since": signs.get("waiting_since"),
        "next_try_at": signs.get("next_try_at"),
    }


def condition_of(
    run: RunRecord, settings: Settings, journal: Journal, clock: Clock
) -> dict[str, Any]:
    """Return the facts of a run; instants are microseconds, money is micro-naira."""
    now, holder = clock(), run.holder
    activity = journal.runs.activity(run.run_id, alive=holder is not None)
    report, signs = run.report or {}, read_vitals(settings.home, run.run_id) or {}
    running = run.state == RUNNING
    live = signs if running else {}
    left = {} if holder is not None else _left_by_dead_process(journal, run.run_id)
    # until its lookups are planned anew, a resumed run has those left that its report names
    asked = live.get("phase") not in {None, READING, PLANNING}
    checks, approval = _checks(report, signs, activity, left, asked=asked), None
    if run.stop_reason == StopReason.APPROVAL:
        approval = Approvals(journal).newest(run.run_id)
    spent, missing = journal.money.of_run(run.run_id), _missing(settings, checks, journal, now)
    last_answer_at = max(activity.last_answer_at or 0, signs.get("last_answer_at") or 0) or None
    return {
        "run_id": run.run_id,
        "flow": run.flow,
        "batch": run.batch,
        **standing_of(run, settings, journal, now, approval),
        "phase": live.get("phase"),
        "started_at": run.started_at,
        "finished_at": run.finished_at,
        "signs_at": signs.get("at"),
        "last_answer_at": last_answer_at,
        "silent_since": live.get("silent_since"),
        "checks": checks,
        "spent_micro": spent.spent_micro,
        "bound_micro": spent.bound_micro,
        "missing_micro": missing,
        "caps_in_the_way": caps_in_the_way(settings, journal, missing or 0),
        "cap_micro": run.cap_micro,
        "balance_micro": journal.runs.last_balance(),
        "in_doubt": activity.in_doubt,
        "in_doubt_micro": activity.in_doubt_micro,
        "finish_at": live.get("finish_at"),
        "deadline_at": live.get("deadline_at") if running else _deadline(run),
        "folder": run.folder,
        "pid": None if holder is None else pid_of(holder),
        "now": now,
    }


def _left_by_dead_process(journal: Journal, run_id: str) -> dict[str, int]:
    """Return the number of lookups to ask, by check, of a run that nothing has closed.

    The last vital signs are some seconds older than its last answers.
    """
    table = journal.lookups.find(run_id)
    if table is None:
        return {}
    to_ask = NOT_ENDED | {LookupStatus.FAILED, LookupStatus.IN_DOUBT}
    left = dict.fromkeys(table.checks, 0)
    for (check, status), number in journal.lookups.counts(table).items():
        left[check] += number if status in to_ask else 0
    return left


def _checks(
    report: Mapping[str, Any],
    signs: Mapping[str, Any],
    activity: RunActivity,
    left_by_dead_process: Mapping[str, int],
    *,
    asked: bool,
) -> dict[str, dict[str, Any]]:
    """Return each check's numbers, from the vital signs of a session that has asked or the report.

    A resumed run still has the report of the session before.
    """
    numbers: dict[str, dict[str, Any]] = {}
    reported, last_seen = report.get("checks", {}), signs.get("checks", {})
    seen = (*last_seen, *reported, *left_by_dead_process, *activity.answered, *activity.troubles)
    for name in dict.fromkeys(seen):
        live, part = last_seen.get(name), reported.get(name)
        left = left_by_dead_process.get(name)
        if left is None and part is not None and (live is None or not asked):
            left = sum(part.get(status, 0) for status in ("pending", "failed", "in_doubt"))
        elif left is None and live is not None:
            left = live["wanted"] - live["done"] + live["failed"] + live["in_doubt"]
        numbers[name] = {
            "answered": activity.answered.get(name, 0),
            "left": left,
            **{key: None if live is None else live[key] for key in ("cap", "in_flight", "stopped")},
            "errors": dict(sorted(activity.troubles.get(name, {}).items())),
        }
    return numbers


def _deadline(run: RunRecord) -> int | None:
    try:
        return deadline_instant(str(run.parameters.get("deadline") or ""), run.started_at)
    except NightscreenError:
        return None


def _missing(
    settings: Settings, checks: Mapping[str, Mapping[str, Any]], journal: Journal, now: int
) -> int | None:
    """Return the maximum cost of the lookups still to be asked; None if unknown."""
    if any(check["left"] is None for check in checks.values()):
        return None
    try:
        listed = load_prices(settings.own_table("prices"))
    except SettingsError:  # the doctor has a finding of its own for it
        listed = load_prices()
    seen, missing = journal.money.prices(), 0
    for name, check in checks.items():
        price = listed.get(name, 0)
        worst = max_cost(price, seen.get(name), limit_micro=price_limit(price), now=now)
        missing += check["left"] * worst
    return missing


def caps_in_the_way(settings: Settings, journal: Journal, missing_micro: int) -> list[str]:
    """Return a remedy for each cap, of the day or the month, that leaves less than is needed."""
    next_day = f"wait for the next day, {DAY_BEGINS},"
    next_month = "wait for the next month"
    scopes = (
        ("DAILY", next_day, settings.daily_spend_cap, journal.money.today()),
        ("MONTHLY", next_month, settings.monthly_spend_cap, journal.money.this_month()),
    )
    remedies = []
    for name, wait, cap, spent in scopes:
        short = 0 if cap is None else missing_micro - max(0, to_micro(cap) - spent.bound_micro)
        if short > 0:
            amount = naira_words(short)
            remedies.append(f"{wait} or raise NIGHTSCREEN_{name}_SPEND_CAP by {amount}")
    return remedies


# --- in words ---


def ending(run: Mapping[str, Any]) -> str:
    """Return the state of a run as a short text."""
    state, approval = run["state"], run["approval"]
    if approval is not None and state == "stopped":
        by, limit = approval["decided_by"], naira_words(approval["max_spend_micro"])
        return {
            ApprovalState.WAITING: "waits for approval of its spending; it made no calls",
            ApprovalState.APPROVED: f"approved up to {limit} by {by}, not resumed yet",
            ApprovalState.REFUSED: f"its spending was refused by {by}; it made no calls",
            ApprovalState.VOID: f"its approval by {by} is void: no run used it in time",
        }[approval["state"]]
    held = ", but held back as implausible" if run["held"] else ""
    if state == "stopped" and run["stopped_by"]:
        return f"stopped by {run['stopped_by']}"
    return {
        "stopped": f"stopped early: {ENDS.get(run['stop_reason'], 'it was stopped')}",
        KILLED: "killed: its process died before it was done; nothing is lost",
        HUNG: "hung: its process lives, but gives no sign of life any more",
        "test_mode": "stopped at once: the service is in test mode and answers with samples",
    }.get(state, f"{state}{held}")


def not_resumed(run: RunRecord, given: Mapping[str, str], error: NightscreenError) -> str:
    """Return why an approved run could not be resumed, and what to type once that is corrected.

    Args:
        run: the run.
        given: the parameters to resume it with; its deadline is not inherited.
        error: what stands in the way.
    """
    deadline = [f"--deadline {given['deadline']}"] if given.get("deadline") else []
    again = resume_command(run.run_id, run.flow, *deadline)
    return f"run {run.run_id} is approved, but could not be resumed: {error}; then type: {again}"


def deadline_words(run: Mapping[str, Any]) -> str | None:
    """Return a text on whether the deadline will be met; None without one, or after the end."""
    deadline_at, finish_at = run["deadline_at"], run["finish_at"]
    if deadline_at is None or run["state"] in {"completed", "test_mode"}:
        return None
    if run["state"] not in {RUNNING, HUNG}:
        return "has passed" if deadline_at <= run["now"] else "is still to come"
    if finish_at is None:
        return "not known yet whether it is met"
    late_s = (finish_at - deadline_at) / MICROS
    return "will be met" if late_s <= 0 else f"will be missed by {late_s / 60:,.0f} min"


_UNSHOWN = {
    *("approval", "bound_micro", "missing_micro", "caps_in_the_way", "folder", "next_try_at", "now")
}


def shown_run(run: Mapping[str, Any]) -> dict[str, Any]:
    """Return the facts of a run for JSON, with its state and its deadline in words."""
    now = run["now"]
    ago = {name: run[f"{name}_at"] for name in ("signs", "last_answer")}
    return {
        **facts({name: value for name, value in run.items() if name not in _UNSHOWN}, "_naira"),
        "approval": None if run["approval"] is None else facts(run["approval"]),
        "ending": ending(run),
        **{f"{name}_ago_s": at and (now - at) / MICROS for name, at in ago.items()},
        "deadline": deadline_words(run),
    }


# --- the morning summary ---

_MOST_OF_A_NIGHT = 200  # newest runs; of a night with more, the earliest are not counted
_STATES = ("completed", "stopped", "test_mode", "killed", "running")


def last_night(settings: Settings) -> dict[str, Any]:
    """Return the numbers of the night that just ended, and `text` with them in words.

    A night is the day from noon to noon in Lagos; money is decimal text in naira.

    Raises:
        JournalError: the journal cannot be read, or there is none.
    """
    journal = open_read_only(settings)
    if journal is None:
        raise JournalError(
            f"there is no journal under {settings.home}: set NIGHTSCREEN_HOME where the worker "
            "runs to where runs keep their state"
        )
    with journal:
        return _night_of(journal, system_clock())


def _night_of(journal: Journal, now: int) -> dict[str, Any]:
    night = spending_day(now)
    newest = (
        (run.finished_at or run.started_at, run)
        for run in journal.runs.newest(limit=_MOST_OF_A_NIGHT)
    )
    runs = [run for at, run in newest if now - at < DAY_MICROS and spending_day(at) == night]
    reports = [run.report for run in runs if run.report is not None]
    checks = [check for report in reports for check in report.get("checks", {}).values()]
    today, balance = journal.money.today(), journal.runs.last_balance()
    drifts = [Decimal(report.get("balance", {}).get("drift") or 0) for report in reports]
    numbers: dict[str, Any] = {
        "night": night,
        "runs": len(runs),
        **{state: sum(run.state == state for run in runs) for state in _STATES},
        "held": sum(bool(report.get("held")) and not report.get("released") for report in reports),
        "rows_screened": sum(report.get("rows", {}).get("screened", 0) for report in reports),
        "lookups_pending": sum(int(check.get("pending", 0)) for check in checks),
        "lookups_failed": sum(int(check.get("failed", 0)) for check in checks),
        "new_listings": sum(report.get("changes", {}).get("new_listing", 0) for report in reports),
        "spent": naira_text(today.spent_micro),
        "in_doubt": naira_text(today.reserved_micro),
        "balance": naira_text(balance),
        "drift": str(sum(drifts, Decimal(0))),
        "notices": sum(len(report.get("notices", ())) for report in reports),
    }
    first = (
        f"{len(runs)} runs, {numbers['rows_screened']:,} rows screened, "
        f"{naira_words(today.spent_micro)} spent, balance {naira_words(balance)}"
    )
    second = (
        f"{numbers['new_listings']:,} new listings, {numbers['lookups_pending']:,} lookups "
        f"pending, {numbers['lookups_failed']:,} failed, drift {numbers['drift']} naira"
    )
    lines = [first if runs else "no run this night", second]
    for run in runs:
        why = f": {ENDS.get(run.stop_reason, '')}" if run.stop_reason else ""
        is_well = run.state in {"completed", "running"}
        advice = "" if is_well else f"; nightscreen doctor {run.run_id}"
        lines.append(f"{run.run_id} of {run.batch} {run.state}{why}{advice}")
        lines += [f"  {notice}" for notice in (run.report or {}).get("notices", ())]
    return numbers | {"text": "\n".join(lines)}
