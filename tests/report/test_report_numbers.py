"""The numbers behind the report: what is new, and branches that may name a customer."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa

from nightscreen.checks.registry import CHECKS
from nightscreen.report.facts import facts_of
from nightscreen.schemas.clock import DAY_MICROS

NOW = 1_790_000_000_000_000


ANSWERED = ("clear", "verified", "found")


def enriched(rows: list[dict[str, Any]], *, exposure: bool = True) -> pa.Table:
    """Return enriched rows with statuses, ages in days by check, exposure, decision, reasons."""
    columns: dict[str, Any] = {
        "decision": pa.array([row.get("decision", "approve") for row in rows], pa.string()),
        "reasons": pa.array([row.get("reasons", []) for row in rows], pa.list_(pa.string())),
    }
    for check in CHECKS:
        words = [row.get(check, "off") for row in rows]
        times = [
            NOW - int(row.get("days", 0) * DAY_MICROS) if word in ANSWERED else None
            for row, word in zip(rows, words, strict=True)
        ]
        columns[f"{check}_status"] = pa.array(words, pa.string()).dictionary_encode()
        columns[f"{check}_checked_at"] = pa.array(times, pa.timestamp("us", "UTC"))
    if exposure:
        columns["exposure"] = pa.array([row.get("exposure") for row in rows], pa.decimal128(20, 2))
    return pa.table(columns)


def counted(*tables: pa.Table) -> dict[str, Any]:
    """Return the figures of some portions."""
    return facts_of(tables, at=NOW)


def test_news_tell_turned_from_first_decisions() -> None:
    """A decline that was an approval, one that stays, and one that is a first are told apart."""
    rows: list[dict[str, Any]] = [
        {"decision": "decline", "karma": "listed", "exposure": Decimal(100)},
        {"decision": "decline", "karma": "clear", "exposure": Decimal(10)},
        {"decision": "decline", "karma": "listed", "exposure": None},
        {"decision": "approve", "karma": "clear", "exposure": Decimal(1)},
    ]
    claimed = pa.array([Decimal(7), None, Decimal(9), None], pa.decimal128(20, 2))
    table = enriched(rows).append_column("karma_amount_in_contention", claimed)
    table = table.append_column(":previous", [["approve", "decline", None, "approve"]])
    table = table.append_column(":change", [["new_listing", None, "new", None]])
    facts = facts_of([table.slice(0, 1), table.slice(1)], at=NOW, compared=True)
    assert facts["evidence"]["decline"]["not_asked"] == {
        "rows": 3,
        "exposure": "110.00",
        "unknown_rows": 1,
    }
    news = facts["news"]
    assert news is not None
    decline = news["decisions"]["decline"]
    assert decline["turned"] == {"rows": 1, "exposure": "100.00", "unknown_rows": 0}
    assert decline["first"] == {"rows": 1, "exposure": "0.00", "unknown_rows": 1}
    assert news["new_listings"]["in_contention"] == "7.00"
    assert news["listed_at_first_sight"]["rows"] == 1


def test_a_branch_that_may_name_a_customer_has_no_line() -> None:
    """Fewer than five customers, a value like an identifier, or none: counted among the others."""
    values = [" Ikeja "] * 5 + ["Kano"] * 4 + ["08031234567"] * 6 + [None, ""]
    rows = [{"exposure": Decimal(1), "decision": "decline"} for _ in values]
    table = enriched(rows).append_column("Branch Name", pa.array(values, pa.string()))
    groups = counted(table.slice(0, 3), table.slice(3))["groups"]
    assert list(groups) == ["branch"]
    assert [(each["name"], each["rows"]) for each in groups["branch"]] == [
        ("Ikeja", 5),
        ("(others)", 12),
    ]
    assert groups["branch"][0]["decisions"]["decline"]["exposure"] == "5.00"
