"""The figures of a report, computed again from the files beside it.

An independent reading of what the columns mean: nothing of the product is imported here. Each
function returns a part of `report.json` in the report's own shape; `differences` compares.

    python -m tests.recomputed out/RUN_ID
"""

from __future__ import annotations

import csv
import json
import sys
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
"""Columns that name who is asked about; a selfie's image is no column of the results."""
NOTHING_TO_ANSWER = ("refused", "ineligible", "invalid", "off")
WAITING = ("test_mode", "pending", "failed", "unreadable", "in_doubt")
CAUSES = (*WAITING, "refused", "invalid")  # why a row is not screened, the first that applies
LEFT = ("spared", "unreadable", "failed", "in_doubt", "pending")
"""Ends of lookups that leave rows without an answer; what test mode left is pending."""
NONE_OF_IT = (0, "0.00", None)
"""What a figure may be where there is nothing; a report leaves out whole parts in test mode."""
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
"""Figures that rest on more than the folder: quotes, prices, the journal, other nights, words."""
OF_A_CHECK = ("saved_by_reuse", "saved_by_sharing", "asked_again")


@dataclass(frozen=True)
class Folder:
    """A run's folder, its tables read once."""

    path: Path

    @cached_property
    def rows(self) -> list[dict[str, Any]]:
        """The enriched rows, in input order."""
        found: list[dict[str, Any]] = []
        for part in sorted((self.path / "enriched").glob("part-*.parquet")):
            found += pq.read_table(part).to_pylist()
        return found

    @cached_property
    def counted(self) -> list[dict[str, Any]]:
        """The rows that figures count: one a customer, where rows were merged."""
        if "customers" not in self.report["rows"]:
            return self.rows
        return [
            {**row, "exposure": row["customer_exposure"]}
            for row in {row["customer_id"]: row for row in self.rows}.values()
        ]

    @cached_property
    def calls(self) -> list[dict[str, Any]]:
        """All calls, those that were not sent too."""
        found: list[dict[str, Any]] = pq.read_table(self.path / "calls.parquet").to_pylist()
        return found

    @cached_property
    def changes(self) -> list[dict[str, Any]]:
        """The changes since the night before; none in test mode, which has no such file."""
        path = self.path / "changes.parquet"
        return pq.read_table(path).to_pylist() if path.exists() else []

    @cached_property
    def report(self) -> dict[str, Any]:
        """`report.json`."""
        found: dict[str, Any] = json.loads((self.path / "report.json").read_text("utf-8"))
        return found

    @property
    def sent(self) -> list[dict[str, Any]]:
        """The calls that were sent, or may have been."""
        return [call for call in self.calls if call["state"] != "not_sent"]

    def lines(self, name: str) -> list[dict[str, str]]:
        """Return the rows of a CSV file; none where it is not there."""
        path = self.path / name
        if not path.exists():
            return []
        with path.open(encoding="utf-8", newline="") as file:
            return list(csv.DictReader(file))


def naira(value: Decimal | int | None) -> str:
    """Return an amount as the report writes it."""
    return f"{Decimal(value or 0):.2f}"


def weight(rows: Iterable[Row]) -> dict[str, Any]:
    """Return how many rows there are, their exposure, and how many have none that is known."""
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
    """Return the weight of the rows of each key; those whose key is None are left out."""
    found: dict[Any, list[Row]] = defaultdict(list)
    for row in rows:
        of_row = key(row)
        if of_row is not None:
            found[of_row].append(row)
    return {name: weight(each) for name, each in found.items()}


def in_doubt_micro(calls: Iterable[Row]) -> Decimal:
    """Return the worst cost of every call whose answer, or whose price, is not known."""
    states = ("in_doubt", "intent", "answered")
    return sum(
        (each["worst_cost"] for each in calls if each["cost"] is None and each["state"] in states),
        Decimal(0),
    )


def cost_of(calls: Iterable[Row]) -> Decimal:
    """Return what calls are known to have cost, in naira."""
    return sum((each["cost"] for each in calls if each["cost"] is not None), Decimal(0))


def recomputed(folder: Folder) -> dict[str, Any]:
    """Return the parts of a report that its folder's files alone tell."""
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
    took = [call["latency_ms"] for call in answered if call["sent_at"] is not None]
    return {
        **{f"rows_{word}": status[word] for word in ("refused", "ineligible", "invalid")},
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
            f"p{percent}": round(float(np.percentile(took, percent)), 1) if took else None
            for percent in (50, 95, 99)
        },
    }


def answers(folder: Folder, answered: Iterable[Row]) -> dict[str, int]:
    """Return how many lookups were paid, and how many were misses that cost nothing.

    Test mode has no answers. A run that was resumed may have taken answers newer than its own,
    which the folder does not tell; nor does it tell what was charged where a cost is disputed.
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
        word: len(
            {
                call["pseudonym"]
                for call, paid in zip(readable, charged, strict=True)
                if paid is wanted
            }
        )
        for word, wanted in (("paid", True), ("free", False))
    }


def identities(folder: Folder, check: str) -> dict[str, int]:
    """Return how many lookups came to each end, where a column names who they are about."""
    kinds = folder.report["provenance"]["karma_identities"]
    if check not in IDENTITY or (check == "karma" and kinds != ["bvn"]):
        return {}

    def several(holds: Callable[[Row], bool]) -> int:
        return len(
            {tuple(row[name] for name in IDENTITY[check]) for row in folder.counted if holds(row)}
        )

    return {
        "lookups": sum(row[f"{check}_status"] not in NOTHING_TO_ANSWER for row in folder.counted),
        "distinct": several(lambda row: row[f"{check}_status"] not in NOTHING_TO_ANSWER),
        "reused": several(lambda row: row[f"{check}_source"] == "reused"),
        **{
            word: several(lambda row, word=word: _end(row[f"{check}_status"]) == word)  # type: ignore[misc]
            for word in LEFT
        },
    }


def _end(status: str) -> str:
    return "pending" if status == "test_mode" else status


def balance(sent: Iterable[Row]) -> dict[str, Any]:
    """Return the balances at both ends, and the lowest reported."""
    bearing = [call for call in sent if call["balance"] is not None]
    bearing.sort(key=lambda call: (call["settled_at"], call["call_id"]))
    if not bearing:
        return {"opening": None, "closing": None, "lowest": None}
    return {
        "opening": naira(bearing[0]["balance"] + (bearing[0]["cost"] or 0)),
        "closing": naira(bearing[-1]["balance"]),
        "lowest": naira(min(call["balance"] for call in bearing)),
    }


def coverage(folder: Folder) -> dict[str, Any]:
    """Return what is due, answered, not screened, fresh, and how old the evidence is."""
    rows = folder.counted
    judged_at = datetime.fromisoformat(folder.report["provenance"]["evidence_judged_at"])

    def statuses(row: Row) -> list[str]:
        return [row[f"{check}_status"] for check in ANSWERED]

    def cause(row: Row) -> str | None:
        return next((word for word in CAUSES if word in statuses(row)), None)

    def waits(row: Row) -> bool:
        return any(word in WAITING for word in statuses(row))

    def due(row: Row) -> bool:
        return waits(row) or any(row[f"{each}_status"] in ANSWERED[each] for each in ANSWERED)

    def age(row: Row) -> float | None:
        return age_of(row, judged_at)

    def complete(row: Row) -> bool:
        return due(row) and "ineligible" not in statuses(row)

    whole = [row for row in rows if cause(row) is None]
    total, fresh = weight(rows), weight(row for row in whole if complete(row))
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
            "nothing_to_ask": weight(row for row in whole if not complete(row)),
            **amounts,
        },
    }


def age_of(row: Row, judged_at: datetime) -> float | None:
    """Return how old the oldest answer of a row is, in days; None where it has none."""
    found = [row[f"{check}_checked_at"] for check in ANSWERED]
    instants = [each for each in found if each is not None]
    return (judged_at - min(instants)).total_seconds() / _DAY_S if instants else None


def is_on_a_limit(folder: Folder) -> bool:
    """Return whether an answer is as old as a limit, to the millisecond that a report has."""
    judged_at = datetime.fromisoformat(folder.report["provenance"]["evidence_judged_at"])
    ages = [age_of(row, judged_at) for row in folder.counted]
    near = 0.001 / _DAY_S
    return any(abs(age - limit) <= near for age in ages if age for limit in AGES if limit)


def share(part: Decimal, whole: Decimal) -> float | None:
    """Return a share in percent to two places, rounded; what is not all of it is never 100."""
    if whole <= 0:
        return None
    near = float(round(100 * part / whole + Decimal("1e-9"), 2))
    if part < whole and near >= 100:
        return 99.99
    return 0.01 if part > 0 and near == 0 else near


def decisions(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return decisions, what they rest on, and their reasons."""
    evidence: dict[str, dict[str, Any]] = defaultdict(dict)
    for (decision, basis), each in grouped(
        rows, lambda row: (row["decision"], _history(row["ecosystem_status"]))
    ).items():
        evidence[decision][basis] = each
    main: dict[Any, list[Row]] = defaultdict(list)
    further: dict[Any, list[Row]] = defaultdict(list)
    for row in rows:
        leads = row["decision"] != "undecided" and bool(row["reasons"])
        main[row["decision"], row["reasons"][0] if leads else None].append(row)
        for code in row["reasons"][leads:]:
            further[row["decision"], code].append(row)
    blind = [
        (-row["exposure"], _history(row["ecosystem_status"]))
        for row in rows
        if row["decision"] == "approve" and row.get("exposure")
    ]
    return {
        "decisions": dict(Counter(row["decision"] for row in rows)),
        "evidence": dict(evidence),
        "largest_without_history": [
            {"exposure": naira(-amount), "basis": basis}
            for amount, basis in sorted(each for each in blind if each[1] != "with_history")[:5]
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
    """Return what a decision knows of the history with other lenders."""
    return BASES.get(status, "not_asked" if status in NOT_ASKED else "not_answered")


def changes(found: Iterable[Row]) -> dict[str, int]:
    """Return customers by kind of change; of one in several places each kind counts."""
    customers: dict[str, set[str]] = defaultdict(set)
    for each in found:
        customers[each["kind"]].add(each["customer"])
    everybody = set().union(*customers.values())
    return {
        "customers": len(everybody),
        **{kind: len(customers[kind]) for kind in KINDS_OF_CHANGE},
    }


def findings(folder: Folder) -> dict[str, Any]:
    """Return what was refused and what was found wanting, by code."""
    refused = Counter(list(line.values())[-2] for line in folder.lines("quarantine.csv"))
    wanting = Counter(
        (line["code"], line["action"])
        for line in folder.lines("problems.csv")
        if line["action"] != "refused"
    )
    return {
        "quarantined": dict(refused),
        "values": [
            {"code": code, "action": action, "count": count}
            for (code, action), count in wanting.items()
        ],
    }


def leaves(value: object, at: str = "") -> dict[str, Any]:
    """Return every figure of a document by its path; lists of records by what names each."""
    if isinstance(value, dict):
        found: dict[str, Any] = {}
        for name, each in value.items():
            found |= leaves(each, f"{at}.{name}" if at else str(name))
        return found
    if isinstance(value, list) and value and isinstance(value[0], dict):
        found = {}
        for each in value:
            names = ("decision", "code", "action", "days", "evidence", "name")
            label = "/".join(str(each[name]) for name in names if name in each)
            found |= leaves({k: v for k, v in each.items() if k not in names}, f"{at}[{label}]")
        return found
    return {at: value}


def differences(folder: Folder) -> dict[str, tuple[Any, Any]]:
    """Return each figure that a report has otherwise than its files: reported and computed.

    The balances are compared where the report calls them exact: at an end where calls overlapped,
    a balance is judged.
    """
    reported, found = leaves(folder.report), leaves(recomputed(folder))
    unsure = [] if folder.report["balance"]["exact"] else ["balance."]
    unsure += ["freshness.ages"] if is_on_a_limit(folder) else []
    found = {at: value for at, value in found.items() if not at.startswith(tuple(unsure))}
    wrong = {
        at: (reported.get(at), value)
        for at, value in found.items()
        if not _same(at, reported.get(at), value)
    }
    unfounded = {
        at: (value, None)
        for at, value in reported.items()
        if at not in found and value not in NONE_OF_IT
        if not at.startswith(tuple(unsure)) and not _from_elsewhere(at)
    }
    return wrong | unfounded


def _same(at: str, reported: Any, found: Any) -> bool:  # noqa: ANN401 - figures of any kind
    """Return whether two figures are one; a latency may be rounded up or down from the middle."""
    if reported in NONE_OF_IT and found in NONE_OF_IT:
        return True
    if ".latency_ms." in at and reported is not None and found is not None:
        return bool(abs(reported - found) < 0.11)
    return bool(reported == found)


def _from_elsewhere(at: str) -> bool:
    """Return whether a figure rests on more than the folder."""
    if at.startswith(FROM_ELSEWHERE):
        return True
    if not at.startswith("checks."):
        return False
    by_identity = at.startswith(("checks.selfie.", "checks.karma."))
    return any(f".{name}" in at for name in (*OF_A_CHECK, "paid", "free")) or (
        by_identity and at.rpartition(".")[2] in ("lookups", "distinct", "reused", *LEFT)
    )


def main() -> int:
    wrong = differences(Folder(Path(sys.argv[1])))
    for at, (reported, found) in sorted(wrong.items()):
        sys.stdout.write(f"{at}: the report has {reported}, the files {found}\n")
    sys.stdout.write(f"{len(wrong)} figures differ\n")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
