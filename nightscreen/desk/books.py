"""The pages of money and of the audit, and their exports as CSV.

Money: every figure is a counter of the journal or comes from a run's report; nothing is counted
again. The audit says who did or saw what; it can be searched, and exported with the chain's hashes.
"""

from __future__ import annotations

import io
import json
from collections import defaultdict
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from functools import reduce
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Final

from starlette.responses import StreamingResponse

from nightscreen.desk.context import DeskError
from nightscreen.files.quarantine import row_writer
from nightscreen.journal.audit import NEWEST, AuditQuery
from nightscreen.journal.calls import CRASHED
from nightscreen.journal.money import Spent
from nightscreen.journal.settling import (
    confirm_invoice,
    disputed_calls,
    explain_gap,
    open_gaps,
    settle_call,
)
from nightscreen.report.format import TITLES
from nightscreen.schemas.clock import LAGOS, instant_text, spending_day, to_micros
from nightscreen.schemas.money import naira_text, typed_micro
from nightscreen.web.guard import see_other

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from starlette.responses import Response

    from nightscreen.desk.context import Context
    from nightscreen.journal.runs import RunHead

DAYS_SHOWN: Final = 62
RUNS_SHOWN: Final = 31
CALLS_SHOWN: Final = 50
ENTRIES_SHOWN: Final = 200
WITHDRAWN: Final = "(of no run any more)"
"""Batch shown for the spending of withdrawn runs, whose calls and costs are kept."""
_SUMS: Final = ("opening", "explained_in_doubt", "drift", "closing")
_MONEY: Final = (
    *("part", "day", "check", "batch", "run_id", "at", "calls", "spent", "in_doubt"),
    *("opening", "cost", "explained_in_doubt", "drift", "closing"),
)
_AUDIT: Final = ("number", "at", "user", "action", "run_id", "customer", "detail", "mark")
_BLOCK: Final = 2000  # lines made at once, which limits memory

# --- CSV ---


def about_export(
    context: Context, filtered: str, rows: int, *, run_id: str = ""
) -> list[tuple[str, str]]:
    """Return the lines of an export that say who made it, when and by which filter."""
    return [
        *([("run", run_id)] if run_id else []),
        ("exported by", context.name),
        ("at", instant_text(context.clock()) or ""),
        ("filter", filtered),
        ("rows", f"{rows}"),
    ]


def csv_response(
    name: str,
    headings: Sequence[str],
    rows: Iterable[Sequence[object]],
    about: Iterable[tuple[str, str]],
) -> StreamingResponse:
    """Return a CSV file for spreadsheets, streamed as its lines are read.

    Who exported it, when and by which filter comes last.
    """
    lines = chain([headings], rows, ([f"# {name}: {value}"] for name, value in about))

    def blocks() -> Iterator[bytes]:
        yield "\ufeff".encode()
        while block := list(islice(lines, _BLOCK)):
            sink = io.StringIO(newline="")
            write = row_writer(sink)
            for row in block:
                write(row)
            yield sink.getvalue().encode()

    headers = {"content-disposition": f'attachment; filename="{name}"'}
    return StreamingResponse(blocks(), media_type="text/csv; charset=utf-8", headers=headers)


# --- money ---


@dataclass(frozen=True, slots=True)
class _Asked:
    """A filter: words that are on a line, and a range of spending days."""

    search: str
    since: str
    until: str

    @classmethod
    def of(cls, context: Context) -> _Asked:
        search = context.asked_first("search").strip()[:200]
        return cls(search, context.day("since"), context.day("until"))

    def has(self, day: str, *said: str) -> bool:
        """Return whether a line of a day fits the filter."""
        line = " ".join((day, *said)).lower()
        in_time = self.since <= day <= (self.until or day)
        return in_time and all(word in line for word in self.search.lower().split())

    def words(self) -> str:
        parts = (("search", self.search), ("from", self.since), ("to", self.until))
        return "; ".join(f"{name}: {value}" for name, value in parts if value) or "everything"


def money(context: Context) -> Response:
    """Show spending by day, check and batch, calls in doubt, and how each run's balance adds up."""
    asked, journal = _Asked.of(context), context.journal
    runs, by_batch = _by_batch(context, asked)
    found = _balances(context, runs[:RUNS_SHOWN])
    balances = [each for each in found if each["opening"] is not None]
    disputed = sorted(disputed_calls(journal), key=lambda each: not each.waits)
    waiting = sum(each.waits for each in disputed)
    return context.page(
        "money",
        missing=open_gaps(journal),
        may_settle=context.may("settle"),
        disputed=disputed[: waiting + CALLS_SHOWN],
        disputed_number=len(disputed),
        asked=asked,
        spending=_by_day(context, asked),
        days_shown=DAYS_SHOWN,
        by_batch=by_batch,
        doubtful=_in_doubt(context, asked),
        calls_shown=CALLS_SHOWN,
        balances=balances,
        more_runs=max(0, len(runs) - RUNS_SHOWN),
        drift=sum((each["drift"] for each in balances), Decimal(0)),
        **context.money_facts(),
    )


# Each part of the page is lines as the export has them, which name the part that they are of.


def _by_day(context: Context, asked: _Asked) -> list[dict[str, Any]]:
    """Return the journal's counters by day and check, the newest day first."""
    found = [
        {"part": "day and check", "day": day, "check": check, **_counters(spent)}
        for day, check, spent in context.journal.money.by_day()
        if asked.has(day, check, TITLES.get(check, ""))
    ]
    by_check = sorted(found, key=lambda each: each["check"])
    return sorted(by_check, key=lambda each: each["day"], reverse=True)


def _by_batch(context: Context, asked: _Asked) -> tuple[list[RunHead], list[dict[str, Any]]]:
    """Return the runs that began in these days, newest first, and their counters by batch."""
    counted = context.journal.money.by_run()
    runs: list[RunHead] = []
    batches: defaultdict[str, list[Spent]] = defaultdict(list)
    for run in context.journal.runs.heads():
        spent = counted.pop(run.run_id, Spent())
        if asked.has(spending_day(run.started_at), run.batch, run.run_id):
            runs.append(run)
            batches[run.batch].append(spent)
    if counted and not (asked.since or asked.until) and asked.has("", WITHDRAWN, *counted):
        batches[WITHDRAWN] = list(counted.values())
    totals = {batch: reduce(Spent.plus, each) for batch, each in batches.items()}
    dearest = sorted(totals, key=lambda batch: -totals[batch].bound_micro)
    return runs, [
        {"part": "batch", "batch": each, "runs": len(batches[each]), **_counters(totals[each])}
        for each in dearest
    ]


def _counters(spent: Spent) -> dict[str, Any]:
    return {
        "calls": spent.calls,
        "spent": _naira(spent.spent_micro),
        "in_doubt": _naira(spent.reserved_micro),
    }


def _naira(micro: int) -> Decimal:
    return Decimal(naira_text(micro) or 0)


def _in_doubt(context: Context, asked: _Asked) -> list[dict[str, Any]]:
    """Return the calls that may have been charged without our knowing, newest first."""
    runs, found = context.journal.runs, []
    doubtful = runs.in_doubt()
    batches = {run.run_id: run.batch for run in runs.heads()} if doubtful else {}
    for row in reversed(doubtful):
        line = {
            "part": "call in doubt",
            "call_id": row.call_id,
            "at": instant_text(row.sent_at or row.intent_at),
            "day": spending_day(row.intent_at),
            "check": row.check,
            "batch": batches.get(row.run_id, WITHDRAWN),
            "run_id": row.run_id,
            "why": row.trouble or CRASHED,
            "calls": 1,
            "in_doubt": _naira(row.reserved_micro),
        }
        said = [str(line[name]) for name in ("check", "batch", "run_id", "why")]
        if asked.has(line["day"], TITLES.get(row.check, ""), *said):
            found.append(line)
    return found


def _balances(context: Context, heads: Sequence[RunHead]) -> Iterator[dict[str, Any]]:
    """Yield how each run's balance adds up, as its report has it."""
    for place in range(0, len(heads), RUNS_SHOWN):
        for run in context.journal.runs.find_all(heads[place : place + RUNS_SHOWN]):
            balance = (run.report or {}).get("balance") or {}
            if run.report and "drift" in balance:
                sums = {name: balance.get(name) for name in _SUMS}
                yield {
                    "part": "balance of a run",
                    "day": spending_day(run.started_at),
                    "at": instant_text(run.finished_at),
                    "batch": run.batch,
                    "run_id": run.run_id,
                    "cost": Decimal(run.report["cost"]["total"]),
                    **{name: value and Decimal(value) for name, value in sums.items()},
                    "exact": balance.get("exact"),
                }


def export_money(context: Context) -> Response:
    """Return every line that fits as CSV, also of days and runs that the page leaves out."""
    asked = _Asked.of(context)
    runs, by_batch = _by_batch(context, asked)
    parts = (_by_day(context, asked), by_batch, _in_doubt(context, asked), _balances(context, runs))
    lines = [[line.get(name) for name in _MONEY] for part in parts for line in part]
    context.record("money exported", rows=len(lines), filter=asked.words())
    about = about_export(context, asked.words(), len(lines))
    return csv_response("money.csv", _MONEY, lines, about)


def settle(context: Context) -> Response:
    """Enter what an invoice says of a call; if below its reservation, a second person confirms."""
    try:
        call, cost_micro = int(context.text("call", 18)), typed_micro(context.text("cost", 30))
    except (ValueError, OverflowError):
        raise DeskError(400, "Write the call's number, and naira such as 25 or 17.50.") from None
    settle_call(context.journal, context.actor, call, cost_micro)
    return see_other("/money#disputed")


def confirm(context: Context) -> Response:
    """Confirm what somebody else entered from an invoice."""
    call, cost = context.text("call", 18), context.text("cost", 30)
    confirm_invoice(context.journal, context.actor, int(call) if call.isdecimal() else 0, cost)
    return see_other("/money#disputed")


def explain(context: Context) -> Response:
    """Record where money went that left the wallet between two runs."""
    run_id, reason = context.text("run_id", 100), context.text("reason", 1000)
    explain_gap(context.journal, context.actor, run_id, reason)
    return see_other("/money#missing")


# --- the audit ---


def audit(context: Context) -> Response:
    """Show entries, newest first."""
    typed, asked = _entries_asked(context)
    before = context.whole_number("before") or NEWEST
    found = context.audit.find(asked, limit=ENTRIES_SHOWN + 1, before=before)
    entries = found[:ENTRIES_SHOWN]
    if not asked.by_customer:
        entries = [{**each, "customer_id": "(not shown)"} for each in entries]
    return context.page(
        "audit",
        entries=entries,
        number=context.audit.number_of(asked),
        older=entries[-1]["number"] if len(found) > ENTRIES_SHOWN else None,
        newest=before == NEWEST,
        asked=typed,
    )


def export_audit(context: Context) -> Response:
    """Return the entries that fit as CSV; customers are shown by pseudonym."""
    typed, asked = _entries_asked(context)
    number = context.audit.number_of(asked)
    newest = context.audit.find(asked, limit=1)
    of_customer = AuditQuery(customer_id=asked.search)
    named = context.may("people") and asked.search and context.audit.find(of_customer, limit=1)

    def lines() -> Iterator[list[Any]]:
        before = newest[0]["number"] + 1 if newest else 0
        while found := context.audit.find(asked, limit=_BLOCK, before=before):
            for each in found:
                shown = {
                    **each,
                    "customer": each["pseudonym"],
                    "detail": json.dumps(each["detail"], ensure_ascii=False),
                }
                yield [shown[name] for name in _AUDIT]
            before = found[-1]["number"]

    # that one customer was asked for is said, not which; the audit has of a search only that it was
    told = replace(typed, search="one customer" if named else typed.search)
    kept = replace(typed, search="a search" if typed.search else "")
    context.record("audit exported", rows=number, filter=kept.words())
    return csv_response("audit.csv", _AUDIT, lines(), about_export(context, told.words(), number))


def _entries_asked(context: Context) -> tuple[_Asked, AuditQuery]:
    """Return words and days as they were typed, and the filter they make."""
    typed = _Asked.of(context)
    since, until = (
        datetime.fromisoformat(day).replace(tzinfo=LAGOS) if day else None
        for day in (typed.since, typed.until)
    )
    return typed, AuditQuery(
        search=typed.search,
        since=None if since is None else to_micros(since),
        until=None if until is None else to_micros(until + timedelta(days=1)),
        by_customer=context.may("people") and not context.branches,
    )
