"""The page of the audit: who did or saw what; searched, and exported with the chain's marks."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from nightscreen.desk.exports import about_export, csv_response
from nightscreen.desk.pages import words
from nightscreen.journal.audit import NEWEST, AuditQuery
from nightscreen.schemas.clock import LAGOS, to_micros

if TYPE_CHECKING:
    from collections.abc import Iterator

    from starlette.responses import Response

    from nightscreen.desk.context import Context

SHOWN: Final = 200
_BLOCK: Final = 2000
_FIELDS: Final = ("search", "user", "action", "run_id", "customer_id", "since", "until")
_HEADINGS: Final = ("number", "at", "user", "action", "run_id", "customer", "detail", "mark")


def audit(context: Context) -> Response:
    """Show entries, newest first."""
    typed, asked = _asked(context)
    given = context.asked_first("before")
    before = int(given) if given.isdecimal() and len(given) < 16 else NEWEST  # noqa: PLR2004 - no audit is longer
    found = context.audit.find(asked, limit=SHOWN + 1, before=before)
    entries = found[:SHOWN]
    if not _names_customers(context):
        entries = [{**each, "customer_id": "(not shown)"} for each in entries]
    return context.page(
        "audit",
        entries=entries,
        number=context.audit.number_of(asked),
        older=entries[-1]["number"] if len(found) > SHOWN else None,
        newest=before == NEWEST,
        asked=typed,
    )


def take_out(context: Context) -> Response:
    """Give the entries that are asked for as CSV; customers stand in it by pseudonym."""
    typed, asked = _asked(context)
    number = context.audit.number_of(asked)
    newest = context.audit.find(asked, limit=1)
    named = context.may("people") and context.audit.find(
        AuditQuery(customer_id=asked.search), limit=1
    )
    search = "one customer" if asked.search and named else asked.search
    said = _words(typed, search="a search" if search else "")
    context.record("audit exported", rows=number, filter=said)
    about = about_export(context, _words(typed, search=search), number)
    before = newest[0]["number"] + 1 if newest else 0
    return csv_response("audit.csv", _HEADINGS, _lines(context, asked, before), about)


def _words(typed: dict[str, str], *, search: str) -> str:
    """Return a filter in words; that one customer was asked for is said, not which."""
    kept = {**typed, "search": search, "customer_id": "one" if typed["customer_id"] else ""}
    said = (f"{words(name).lower()}: {kept[name]}" for name in _FIELDS if kept[name])
    return "; ".join(said) or "everything"


def _asked(context: Context) -> tuple[dict[str, str], AuditQuery]:
    """Return the fields as they were typed, and which entries they ask for."""
    typed = {name: context.asked_first(name).strip()[:200] for name in _FIELDS}
    if context.branches and typed["customer_id"]:
        context.require_seen(typed["customer_id"], "")
    since, until = (_midnight(context.day(name)) for name in ("since", "until"))
    asked = AuditQuery(
        typed["user"],
        typed["action"],
        typed["run_id"],
        typed["customer_id"],
        typed["search"],
        since=None if since is None else to_micros(since),
        until=None if until is None else to_micros(until + timedelta(days=1)),
        by_customer=_names_customers(context),
    )
    return typed, asked


def _midnight(day: str) -> datetime | None:
    return datetime.fromisoformat(day).replace(tzinfo=LAGOS) if day else None


def _names_customers(context: Context) -> bool:
    """Tell whether the user is shown which customer an entry is about."""
    return context.may("people") and not context.branches


def _lines(context: Context, asked: AuditQuery, before: int) -> Iterator[list[Any]]:
    while found := context.audit.find(asked, limit=_BLOCK, before=before):
        for each in found:
            yield [
                *(each[name] for name in ("number", "at", "user", "action", "run_id", "pseudonym")),
                json.dumps(each["detail"], ensure_ascii=False),
                each["mark"],
            ]
        before = found[-1]["number"]
