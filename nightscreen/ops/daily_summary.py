"""The morning summary: the night in numbers, from the journal alone.

Runs of one night, killed ones included. No personal data; the engine decides who is notified.
"""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

from nightscreen.ops.suggestions import ENDS
from nightscreen.schemas.clock import DAY_MICROS, spending_day
from nightscreen.schemas.money import naira_text, naira_words

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nightscreen.journal.read_only import Look
    from nightscreen.journal.runs import RunRecord

_MOST_RUNS = 200


def night_of(look: Look, now: int) -> dict[str, Any]:
    """Return the numbers of the night that an instant belongs to, and `text` with them.

    A night is the day from noon to noon in Lagos; money is decimal text in naira.
    """
    night = spending_day(now)
    newest = look.runs.newest(limit=_MOST_RUNS)
    runs = [run for run in newest if now - _last_at(run) < DAY_MICROS and _night(run) == night]
    reports = [run.report for run in runs if run.report is not None]
    today = look.money.today()
    numbers: dict[str, Any] = {
        "night": night,
        "runs": len(runs),
        **{
            state: sum(run.state == state for run in runs)
            for state in ("completed", "stopped", "test_mode", "killed", "running")
        },
        "held": sum(bool(report.get("held")) and not report.get("released") for report in reports),
        "rows_screened": sum(report.get("rows", {}).get("screened", 0) for report in reports),
        "lookups_pending": sum(_lookups(report, "pending") for report in reports),
        "lookups_failed": sum(_lookups(report, "failed") for report in reports),
        "new_listings": sum(report.get("changes", {}).get("new_listing", 0) for report in reports),
        "spent": naira_text(today.spent_micro),
        "in_doubt": naira_text(today.reserved_micro),
        "balance": naira_text(look.runs.last_balance()),
        "drift": str(sum((_drift(report) for report in reports), Decimal(0))),
        "notices": sum(len(report.get("notices", ())) for report in reports),
    }
    numbers["text"] = "\n".join(_lines(numbers, runs, look.runs.last_balance(), today.spent_micro))
    return numbers


def _last_at(run: RunRecord) -> int:
    return run.finished_at or run.started_at


def _night(run: RunRecord) -> str:
    return spending_day(_last_at(run))


def _lookups(report: Mapping[str, Any], name: str) -> int:
    return sum(int(check.get(name, 0)) for check in report.get("checks", {}).values())


def _drift(report: Mapping[str, Any]) -> Decimal:
    return Decimal(report.get("balance", {}).get("drift") or 0)


def _lines(
    numbers: Mapping[str, Any], runs: Sequence[RunRecord], balance: int | None, spent: int
) -> list[str]:
    first = (
        f"{numbers['runs']} runs, {numbers['rows_screened']:,} rows screened, "
        f"{naira_words(spent)} spent, balance {naira_words(balance)}"
    )
    second = (
        f"{numbers['new_listings']:,} new listings, {numbers['lookups_pending']:,} lookups "
        f"pending, {numbers['lookups_failed']:,} failed, drift {numbers['drift']} naira"
    )
    lines = [first, second]
    if not runs:
        lines[0] = "no run this night"
    for run in runs:
        why = f": {ENDS.get(run.stop_reason or '', '')}" if run.stop_reason else ""
        again = (
            "" if run.state in {"completed", "running"} else f"; nightscreen doctor {run.run_id}"
        )
        lines.append(f"{run.run_id} of {run.batch} {run.state}{why}{again}")
        lines += [f"  {notice}" for notice in (run.report or {}).get("notices", ())]
    return lines
