"""The laws that hold after every night, whatever happened in it.

Read off the run's folder alone, so that any end-to-end test can hold them at no great cost: every
row has a result or a line in the quarantine, the numbers of the report add up and are those of the
calls, no cap was passed, nothing that needs consent was asked without it, and no identifier stands
where none belongs. What the journal must come to is for `journal verify`, and what the service
charged for its own ledger.
"""

from __future__ import annotations

import csv
import json
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc
import pyarrow.parquet as pq

from nightscreen.schemas.checks import ANSWERED, CONSENT_GATED, Check, NoAnswer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ENDS = ("paid", "free", "reused", "spared", "unreadable", "failed", "pending", "in_doubt")
"""What may become of a lookup: together they are all that were needed."""
IDENTIFYING = ("bvn", "account_number", "phone", "email")
NAMELESS = ("report.json", "report.html", "problems.csv", "calls.parquet", "changes.parquet")
"""Files that hold no identifier; `manifest.json` too."""
LEAST = 9
"""Characters from which an identifier is searched for: shorter ones may be any number."""


def broken_laws(folder: Path) -> list[str]:
    """Return a sentence for each law that a run's folder breaks; none where all hold."""
    report = json.loads((folder / "report.json").read_text("utf-8"))
    parts = sorted((folder / "enriched").glob("part-*.parquet"))
    rows = [row for part in parts for row in pq.read_table(part).to_pylist()]
    calls = pq.read_table(folder / "calls.parquet")
    return [
        *_about_rows(folder, report, rows),
        *_about_checks(report),
        *_about_money(report, calls),
        *_about_consent(calls),
        *_about_identifiers(folder, rows),
    ]


def _about_rows(folder: Path, report: dict[str, Any], rows: list[dict[str, Any]]) -> Iterator[str]:
    counted = report["rows"]
    if counted["read"] != counted["screened"] + counted["quarantined"]:
        yield f"rows do not add up: {counted}"
    if len(rows) != counted["screened"]:
        yield f"{len(rows)} rows are enriched of {counted}"
    refused = folder / "quarantine.csv"
    lines = 0
    if refused.exists():
        with refused.open(encoding="utf-8", newline="") as file:
            lines = len(list(csv.DictReader(file)))
    if lines != counted["quarantined"]:
        yield f"{lines} rows are in the quarantine of {counted}"
    words = {check: {*ANSWERED[check], *(each.value for each in NoAnswer)} for check in Check}
    for check, known in words.items():
        strange = {row[f"{check}_status"] for row in rows} - {str(word) for word in known}
        if strange:
            yield f"{check} has statuses that nobody knows: {strange}"


def _about_checks(report: dict[str, Any]) -> Iterator[str]:
    for check, numbers in report["checks"].items():
        ends = sum(numbers[end] for end in ENDS)
        if numbers["distinct"] != ends:
            yield f"{check}: {numbers['distinct']} lookups came to {ends} ends"
        if report["state"] == "completed" and numbers["pending"]:
            yield f"{check}: a completed run has {numbers['pending']} lookups pending"


def _about_money(report: dict[str, Any], calls: Any) -> Iterator[str]:  # noqa: ANN401 - an Arrow table
    cost, balance = report["cost"], report["balance"]
    spent = sum((each for each in calls["cost"].to_pylist() if each is not None), Decimal(0))
    if Decimal(cost["total"]) != spent:
        yield f"the report's cost is {cost['total']}, its calls' {spent}"
    by_check = sum(Decimal(each["cost"]) for each in report["checks"].values())
    if Decimal(cost["total"]) != by_check:
        yield f"the report's cost is {cost['total']}, its checks' {by_check}"
    dearest = max((each for each in calls["cost"].to_pylist() if each is not None), default=0)
    if cost["cap"] is not None and Decimal(cost["total"]) > Decimal(cost["cap"]) + dearest:
        yield f"the cap of {cost['cap']} was passed: {cost['total']}"  # a price may rise once
    if balance["opening"] is None:
        if Decimal(balance["drift"]):
            yield "there is drift without any balance"
        return
    taken = Decimal(cost["total"]) + Decimal(balance["explained_in_doubt"])
    if Decimal(balance["opening"]) - taken - Decimal(balance["drift"]) != Decimal(
        balance["closing"]
    ):
        yield f"the balance does not add up: {balance}, cost {cost['total']}"


def _about_consent(calls: Any) -> Iterator[str]:  # noqa: ANN401 - an Arrow table
    for check in CONSENT_GATED:
        mine = calls.filter(pc.equal(calls["check"], check.value))
        without = [
            row for row in mine.to_pylist() if row["sent_at"] and not row["consent_reference"]
        ]
        if without:
            yield f"{check}: {len(without)} calls were sent without a consent"


def _about_identifiers(folder: Path, rows: list[dict[str, Any]]) -> Iterator[str]:
    values = {
        str(row[name]).removeprefix("+234")
        for row in rows
        for name in IDENTIFYING
        if row.get(name) and len(str(row[name])) >= LEAST
    }
    for name in (*NAMELESS, "manifest.json"):
        path = folder / name
        content = path.read_bytes() if path.exists() else b""
        found = sum(value.encode() in content for value in values)
        if found:
            yield f"{name} holds {found} identifiers"


def require_laws(folder: Path) -> None:
    """Fail the test where a run's folder breaks a law; one that only quotes has none."""
    if (folder / "report.json").exists() and (folder / "calls.parquet").exists():
        assert broken_laws(folder) == []
