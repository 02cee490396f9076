"""The figures of a report, computed again from the other files of the run.

This is an independent reading of what the columns mean: nothing is imported from the product. Each
function returns a part of `report.json` in the report's shape; `differences` compares the two.
"""

from __future__ import annotations

import csv
import json
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

Row = Mapping[str, Any]


ANSWERED = {
    "bank_account": ("verified", "mismatch", "unconfirmed", "not_found"),
    "karma": ("listed", "clear"),
    "ecosystem": ("found", "not_found"),
    "selfie": ("match", "no_match", "unsure"),
}
HITS = ("found", "listed", "scored")  # outcomes with a record, which are charged; a miss is not
IDENTITY = {
    "bank_account": ("bank_code", "account_number"),
    "karma": ("bvn",),
    "ecosystem": ("bvn",),
}
"""Columns that identify a lookup; the results have no column of a selfie's image."""
NOTHING_TO_ANSWER = ("refused", "ineligible", "invalid", "off")
WAITING = ("test_mode", "pending", "failed", "unreadable", "in_doubt")
CAUSES = (*WAITING, "refused", "invalid")  # why a row is not screened; the first one applies
UNANSWERED = ("spared", "unreadable", "failed", "in_doubt", "pending")
"""Ends of lookups that leave rows without an answer; `pending` includes those of test mode."""
ZEROS = (0, "0.00", None)
"""Values that count as zero; in test mode a report leaves out whole parts."""
BASES = {"found": "with_history", "not_found": "no_history", "refused": "no_consent"}
NOT_ASKED = ("off", "ineligible", "invalid")
AGES = (None, 1, 7, 30, 90, None)  # limits of the ages of evidence, in days
NOTHING = {"rows": 0, "exposure": "0.00", "unknown_rows": 0}
KINDS_OF_CHANGE = ("new_listing", "worse", "changed", "cleared", "better", "new", "gone")
_DAY_S = 86_400
FROM_ELSEWHERE = (
    *("schema_version", "run_id", "batch", "purpose", "state", "stop_reason", "publishable"),
    *("started_at", "finished_at", "provenance", "notices", "spending", "held"),
    *("nights", "groups", "news", "overrides", "customer_notices", "contests"),
    *("cost.quoted", "cost.cap", "cost.over_cap", "cost.disputed", "cost.saved_by_"),
    *("cost.price_rises", "balance.", "freshness.oldest", "freshness.at_", "files.enriched/"),
    *("files.quarantine.csv", "files.problems.csv", "files.report", "files.manifest"),
    *(
        "files.notices.csv",
        "files.shadow.csv",
        "shadow",
        "outcomes",
    ),
    "rows.customers",
)
"""Figures that need more than the folder: quotes, prices, the journal, other runs, texts."""
OF_A_CHECK = ("saved_by_reuse", "saved_by_sharing", "asked_again")


@dataclass(frozen=True)
class Folder:
    """A run's folder, its tables read once."""

    path: Path

    @cached_property
    def rows(self) -> list[dict[str, Any]]:
        """The enriched rows, in input order."""
        rows: list[dict[str, Any]] = []
        for part in sorted((self.path / "enriched").glob("part-*.parquet")):
            rows += pq.read_table(part).to_pylist()
        return rows

    @cached_property
    def counted(self) -> list[dict[str, Any]]:
        """The rows that figures count: one per customer, if rows were merged."""
        if "customers" not in self.report["rows"]:
            return self.rows
        return [
            {**row, "exposure": row["customer_exposure"]}
            for row in {row["customer_id"]: row for row in self.rows}.values()
        ]

    @cached_property
    def calls(self) -> list[dict[str, Any]]:
        """All calls, including those that were not sent."""
        calls: list[dict[str, Any]] = pq.read_table(self.path / "calls.parquet").to_pylist()
        return calls

    @cached_property
    def changes(self) -> list[dict[str, Any]]:
        """The changes since the last run; none in test mode, which has no such file."""
        path = self.path / "changes.parquet"
        return pq.read_table(path).to_pylist() if path.exists() else []

    @cached_property
    def report(self) -> dict[str, Any]:
        report: dict[str, Any] = json.loads((self.path / "report.json").read_text("utf-8"))
        return report

    @property
    def sent(self) -> list[dict[str, Any]]:
        return [call for call in self.calls if call["state"] != "not_sent"]

    def lines(self, name: str) -> list[dict[str, str]]:
        """Return the rows of a CSV file; none if it does not exist."""
        path = self.path / name
        if not path.exists():
            return []
        with path.open(encoding="utf-8", newline="") as file:
            return list(csv.DictReader(file))


def naira(value: Decimal | int | None) -> str:
    """Return an amount in the report's format."""
    return f"{Decimal(value or 0):.2f}"


def weight(rows: Iterable[Row]) -> dict[str, Any]:
    """Return the number of rows, their exposure, and the number of rows with unknown exposure."""
    exposures = [row.get("exposure") for row in rows]
    known = [each for each in exposures if each is not None]
    return {
        "rows": len(exposures),
        "exposure": naira(sum(known, Decimal(0))),
        "unknown_rows": len(exposures) - len(known),
    }


def grouped(
    rows: Iterable[Row], key: Callable[[Row], Hashable | None]
) -> dict[Any, dict[str, Any]]:
    """Return the weight of the rows of each key; rows with key None are left out."""
    groups: dict[Any, list[Row]] = defaultdict(list)
    for row in rows:
        of_row = key(row)
        if of_row is not None:
            groups[of_row].append(row)
    return {name: weight(each) for name, each in groups.items()}


def in_doubt_micro(calls: Iterable[Row]) -> Decimal:
    """Return the worst cost of all calls whose answer or price is not known."""
    states = ("in_doubt", "intent", "answered")
    return sum(
        (each["worst_cost"] for each in calls if each["cost"] is None and each["state"] in states),
        Decimal(0),
    )


def cost_of(calls: Iterable[Row]) -> Decimal:
    """Return the known cost of calls, in naira."""
    return sum((each["cost"] for each in calls if each["cost"] is not None), Decimal(0))


def recomputed(folder: Folder) -> dict[str, Any]:
    """Return the parts of a report that can be computed from the folder's files alone."""
    rows, sent = folder.counted, folder.sent
    read, refused = len(folder.rows), len(folder.lines("quarantine.csv"))
    cost = cost_of(sent)
    return {
        "rows": {"read": read + refused, "screened": read, "quarantined": refused},
        "checks": {
            check: of_check(folder, check)
            for check in ANSWERED
            if any(row[f"{check}_status"] != "off" for row in rows)
        },
        "cost": {
            "total": naira(cost),
            "in_doubt_exposure": naira(in_doubt_micro(sent)),
        },
        "balance": balance(sent),
        **coverage(folder),
        **decisions(rows),
        "changes": changes(folder.changes),
        "findings": findings(folder),
        "files": {
            "calls.parquet": len(folder.calls),
            "changes.parquet": len(folder.changes),
            "decisions.csv": len(folder.lines("decisions.csv")),
            "decisions.xlsx": len(folder.lines("decisions.csv")),
        },
    }


def of_check(folder: Folder, check: str) -> dict[str, Any]:
    rows = folder.counted
    status = Counter(row[f"{check}_status"] for row in rows)
    sent = [call for call in folder.sent if call["check"] == check]
    answered = [call for call in sent if call["state"] == "answered"]
    latencies = [call["latency_ms"] for call in answered if call["sent_at"] is not None]
    return {
        **{f"rows_{name}": status[name] for name in ("refused", "ineligible", "invalid")},
        **answers(folder, answered),
        **identities(folder, check),
        "attempts": len(sent),
        "retries": sum(call["attempts"] > 1 for call in sent),
        "cost": naira(cost_of(sent)),
        "in_doubt_exposure": naira(in_doubt_micro(sent)),
        "answers": dict(status),
        "asked_answers": dict(
            Counter(row[f"{check}_status"] for row in rows if row[f"{check}_source"] == "asked")
        ),
        "troubles": dict(Counter(call["trouble"] for call in sent if call["trouble"])),
        "latency_ms": {
            f"p{percent}": round(float(np.percentile(latencies, percent)), 1) if latencies else None
            for percent in (50, 95, 99)
        },
    }


def answers(folder: Folder, answered: Iterable[Row]) -> dict[str, int]:
    """Return how many lookups were paid, and how many were free misses.

    Test mode has no answers. Nothing is computed for a resumed run, which may have used answers
    newer than its own, or for disputed costs: the folder does not have what is needed.
    """
    if folder.report["state"] == "test_mode":
        return {"paid": 0, "free": 0}
    if folder.report["provenance"]["earlier_reports"] or folder.report["cost"]["disputed"]:
        return {}
    readable = [call for call in answered if call["outcome"] != "unreadable"]
    charged = [
        call["outcome"] in HITS if call["cost"] is None else call["cost"] > 0 for call in readable
    ]
    return {
        end: len(
            {
                call["pseudonym"]
                for call, was_paid in zip(readable, charged, strict=True)
                if was_paid is is_paid
            }
        )
        for end, is_paid in (("paid", True), ("free", False))
    }


def identities(folder: Folder, check: str) -> dict[str, int]:
    """Return the number of lookups by end, for checks whose identities are columns."""
    kinds = folder.report["provenance"]["karma_identities"]
    if check not in IDENTITY or (check == "karma" and kinds != ["bvn"]):
        return {}

    def distinct(matches: Callable[[Row], bool]) -> int:
        return len(
            {tuple(row[name] for name in IDENTITY[check]) for row in folder.counted if matches(row)}
        )

    return {
        "lookups": sum(row[f"{check}_status"] not in NOTHING_TO_ANSWER for row in folder.counted),
        "distinct": distinct(lambda row: row[f"{check}_status"] not in NOTHING_TO_ANSWER),
        "reused": distinct(lambda row: row[f"{check}_source"] == "reused"),
        **{
            end: distinct(lambda row, end=end: _end(row[f"{check}_status"]) == end)  # type: ignore[misc]
            for end in UNANSWERED
        },
    }


def _end(status: str) -> str:
    return "pending" if status == "test_mode" else status


def balance(sent: Iterable[Row]) -> dict[str, Any]:
    calls = [call for call in sent if call["balance"] is not None]
    calls.sort(key=lambda call: (call["settled_at"], call["call_id"]))
    if not calls:
        return {"opening": None, "closing": None, "lowest": None}
    return {
        "opening": naira(calls[0]["balance"] + (calls[0]["cost"] or 0)),
        "closing": naira(calls[-1]["balance"]),
        "lowest": naira(min(call["balance"] for call in calls)),
    }


def coverage(folder: Folder) -> dict[str, Any]:
    """Return the rows that are due, answered, not screened and fresh, and the evidence's age."""
    rows = folder.counted
    judged_at = datetime.fromisoformat(folder.report["provenance"]["evidence_judged_at"])

    def statuses(row: Row) -> list[str]:
        return [row[f"{check}_status"] for check in ANSWERED]

    def cause(row: Row) -> str | None:
        return next((each for each in CAUSES if each in statuses(row)), None)

    def waits(row: Row) -> bool:
        return any(each in WAITING for each in statuses(row))

    def due(row: Row) -> bool:
        return waits(row) or any(row[f"{each}_status"] in ANSWERED[each] for each in ANSWERED)

    def age(row: Row) -> float | None:
        return age_of(row, judged_at)

    def is_complete(row: Row) -> bool:
        return due(row) and "ineligible" not in statuses(row)

    screened = [row for row in rows if cause(row) is None]
    total, fresh = weight(rows), weight(row for row in screened if is_complete(row))
    aged = [(age(row), row) for row in rows]
    ages = []
    for low, high in pairwise(AGES):
        inside = [
            row
            for days, row in aged
            if days is not None and (low is None or days > low) and (high is None or days <= high)
        ]
        ages.append({"days": high, "evidence": True, **weight(inside)})
    ages.append({"days": None, "evidence": False, **weight(r for days, r in aged if days is None)})
    amounts = {
        f"decision_{name}": each["exposure"]
        for name, each in grouped(rows, lambda row: row["decision"]).items()
    }
    for check in ANSWERED:
        of_status = grouped(rows, lambda row, check=check: row[f"{check}_status"])  # type: ignore[misc]
        amounts |= {f"{check}_{w}": of_status[w]["exposure"] for w in CAUSES if w in of_status}
    return {
        "coverage": {
            "due_rows": sum(map(due, rows)),
            "answered_rows": sum(due(row) and not waits(row) for row in rows),
        },
        "freshness": {
            "fresh": {
                **fresh,
                "exposure_pct": share(Decimal(fresh["exposure"]), Decimal(total["exposure"])),
                "rows_pct": share(Decimal(fresh["rows"]), Decimal(total["rows"])),
            },
            "ages": ages,
        },
        "exposure": {
            "total": total["exposure"],
            "unknown_rows": total["unknown_rows"],
            "not_screened": {
                **weight(row for row in rows if cause(row) is not None),
                "causes": grouped(rows, cause),
            },
            "nothing_to_ask": weight(row for row in screened if not is_complete(row)),
            **amounts,
        },
    }


def age_of(row: Row, judged_at: datetime) -> float | None:
    """Return the age in days of a row's oldest answer; None if it has no answer."""
    checked_at = [row[f"{check}_checked_at"] for check in ANSWERED]
    instants = [each for each in checked_at if each is not None]
    return (judged_at - min(instants)).total_seconds() / _DAY_S if instants else None


def is_on_a_limit(folder: Folder) -> bool:
    """Return whether an answer's age equals a limit to the millisecond, the report's precision."""
    judged_at = datetime.fromisoformat(folder.report["provenance"]["evidence_judged_at"])
    ages = [age_of(row, judged_at) for row in folder.counted]
    tolerance = 0.001 / _DAY_S
    return any(abs(age - limit) <= tolerance for age in ages if age for limit in AGES if limit)


def share(part: Decimal, whole: Decimal) -> float | None:
    """Return a share in percent, rounded to two places; 0 and 100 only if it is nothing or all."""
    if whole <= 0:
        return None
    percent = float(round(100 * part / whole + Decimal("1e-9"), 2))
    if part < whole and percent >= 100:
        return 99.99
    return 0.01 if part > 0 and percent == 0 else percent


def decisions(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return decisions, the evidence on credit history behind them, and their reasons."""
    evidence: dict[str, dict[str, Any]] = defaultdict(dict)
    for (decision, basis), each in grouped(
        rows, lambda row: (row["decision"], _history(row["ecosystem_status"]))
    ).items():
        evidence[decision][basis] = each
    main: dict[Any, list[Row]] = defaultdict(list)
    further: dict[Any, list[Row]] = defaultdict(list)
    for row in rows:
        has_main = row["decision"] != "undecided" and bool(row["reasons"])
        main[row["decision"], row["reasons"][0] if has_main else None].append(row)
        for code in row["reasons"][has_main:]:
            further[row["decision"], code].append(row)
    approved = [
        (-row["exposure"], _history(row["ecosystem_status"]))
        for row in rows
        if row["decision"] == "approve" and row.get("exposure")
    ]
    return {
        "decisions": dict(Counter(row["decision"] for row in rows)),
        "evidence": dict(evidence),
        "largest_without_history": [
            {"exposure": naira(-amount), "basis": basis}
            for amount, basis in sorted(each for each in approved if each[1] != "with_history")[:5]
        ],
        "reasons": [
            {
                "decision": decision,
                "code": code,
                "main": weight(main.get((decision, code), ())),
                "further": weight(further.get((decision, code), ())),
            }
            for decision, code in dict.fromkeys((*main, *further))
        ],
    }


def _history(status: str) -> str:
    """Return what a decision knows about the credit history with other lenders."""
    return BASES.get(status, "not_asked" if status in NOT_ASKED else "not_answered")


def changes(rows: Iterable[Row]) -> dict[str, int]:
    """Return customers by kind of change; a customer may have several kinds."""
    customers: dict[str, set[str]] = defaultdict(set)
    for row in rows:
        customers[row["kind"]].add(row["customer"])
    return {
        "customers": len(set().union(*customers.values())),
        **{kind: len(customers[kind]) for kind in KINDS_OF_CHANGE},
    }


def findings(folder: Folder) -> dict[str, Any]:
    """Return the number of refused rows and of problems of values, by code."""
    refused = Counter(list(line.values())[-2] for line in folder.lines("quarantine.csv"))
    problems = Counter(
        (line["code"], line["action"])
        for line in folder.lines("problems.csv")
        if line["action"] != "refused"
    )
    return {
        "quarantined": dict(refused),
        "values": [
            {"code": code, "action": action, "count": count}
            for (code, action), count in problems.items()
        ],
    }


def leaves(value: object, at: str = "") -> dict[str, Any]:
    """Return every figure of a document by its path; items of lists are labelled by their names."""
    if isinstance(value, dict):
        figures: dict[str, Any] = {}
        for name, each in value.items():
            figures |= leaves(each, f"{at}.{name}" if at else str(name))
        return figures
    if isinstance(value, list) and value and isinstance(value[0], dict):
        figures = {}
        for each in value:
            names = ("decision", "code", "action", "days", "evidence", "name")
            label = "/".join(str(each[name]) for name in names if name in each)
            figures |= leaves({k: v for k, v in each.items() if k not in names}, f"{at}[{label}]")
        return figures
    return {at: value}


def differences(folder: Folder) -> dict[str, tuple[Any, Any]]:
    """Return the figures that differ between the report and its files: reported and computed.

    Balances are compared only if the report calls them exact: if calls overlap at the first or the
    last call, the balance there is an estimate.
    """
    reported, computed = leaves(folder.report), leaves(recomputed(folder))
    inexact = [] if folder.report["balance"]["exact"] else ["balance."]
    inexact += ["freshness.ages"] if is_on_a_limit(folder) else []
    computed = {at: value for at, value in computed.items() if not at.startswith(tuple(inexact))}
    wrong = {
        at: (reported.get(at), value)
        for at, value in computed.items()
        if not _same(at, reported.get(at), value)
    }
    not_computed = {
        at: (value, None)
        for at, value in reported.items()
        if at not in computed and value not in ZEROS
        if not at.startswith(tuple(inexact)) and not _from_elsewhere(at)
    }
    return wrong | not_computed


def _same(at: str, reported: Any, computed: Any) -> bool:  # noqa: ANN401 - figures of any kind
    """Return whether two figures are equal; a latency halfway may be rounded up or down."""
    if reported in ZEROS and computed in ZEROS:
        return True
    if ".latency_ms." in at and reported is not None and computed is not None:
        return bool(abs(reported - computed) < 0.11)
    return bool(reported == computed)


def _from_elsewhere(at: str) -> bool:
    """Return whether a figure cannot be computed from the folder."""
    if at.startswith(FROM_ELSEWHERE):
        return True
    if not at.startswith("checks."):
        return False
    by_identity = at.startswith(("checks.selfie.", "checks.karma."))
    return any(f".{name}" in at for name in (*OF_A_CHECK, "paid", "free")) or (
        by_identity and at.rpartition(".")[2] in ("lookups", "distinct", "reused", *UNANSWERED)
    )
