"""The morning summary: the night in numbers, from the journal alone.

Runs of one night, killed ones included. No personal data; the engine decides who is notified.
"""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

from nightscreen.journal.read_only import look_into
from nightscreen.ops.status import ENDS
from nightscreen.schemas.clock import DAY_MICROS, spending_day, system_clock
from nightscreen.schemas.errors import JournalError
from nightscreen.schemas.money import naira_text, naira_words

if TYPE_CHECKING:
    from nightscreen.config.settings import Settings
    from nightscreen.journal.read_only import Look

_MOST_RUNS = 200  # newest runs: of a night with more, the first ones are not counted
_STATES = ("completed", "stopped", "test_mode", "killed", "running")


def last_night(settings: Settings) -> dict[str, Any]:
    """Return the numbers of the night that just ended, and `text` with them.

    A night is the day from noon to noon in Lagos; money is decimal text in naira.

    Raises:
        JournalError: the journal cannot be read, or there is none.
    """
    look = look_into(settings)
    if look is None:
        raise JournalError(
            f"there is no journal under {settings.home}: set NIGHTSCREEN_HOME where the worker "
            "runs to where runs keep their state"
        )
    with look:
        return _night_of(look, system_clock())


def _night_of(look: Look, now: int) -> dict[str, Any]:
    night = spending_day(now)
    newest = (
        (run.finished_at or run.started_at, run) for run in look.runs.newest(limit=_MOST_RUNS)
    )
    runs = [run for at, run in newest if now - at < DAY_MICROS and spending_day(at) == night]
    reports = [run.report for run in runs if run.report is not None]
    checks = [check for report in reports for check in report.get("checks", {}).values()]
    today, balance = look.money.today(), look.runs.last_balance()
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
        well = run.state in {"completed", "running"}
        again = "" if well else f"; nightscreen doctor {run.run_id}"
        lines.append(f"{run.run_id} of {run.batch} {run.state}{why}{again}")
        lines += [f"  {notice}" for notice in (run.report or {}).get("notices", ())]
    return numbers | {"text": "\n".join(lines)}
