"""Findings: how many rows were refused and how many values flawed, by cause, from the run's files.

Only our own columns are read; no value of any row.
"""

from __future__ import annotations

import csv
from collections import Counter
from typing import TYPE_CHECKING, Any

from nightscreen.results.decision_list import quarantined

if TYPE_CHECKING:
    from pathlib import Path


def findings_of(quarantine: Path, problems: Path) -> dict[str, Any]:
    """Return the part `findings` of the report, most frequent first.

    Returns:
        `quarantined`: rows by the code of their refusal; `values`: entries of `problems.csv` about
        rows that were kept, as code, action (`invalid`, `repaired`, `warned`) and count.
    """
    refused = Counter(code for _, _, code, _ in quarantined(quarantine))
    flaws = _flaws(problems)
    return {
        "quarantined": dict(_ordered(refused)),
        "values": [
            {"code": code, "action": action, "count": count}
            for (code, action), count in _ordered(flaws)
        ],
    }


def _flaws(path: Path) -> Counter[tuple[str, str]]:
    found: Counter[tuple[str, str]] = Counter()
    if not path.exists():
        return found
    with path.open(encoding="utf-8", newline="") as file:
        rows = csv.reader(file)
        names = next(rows, [])
        code, action = names.index("code"), names.index("action")
        for row in rows:
            if row[action] != "refused":
                found[row[code], row[action]] += 1
    return found


def _ordered(counter: Counter[Any]) -> list[tuple[Any, int]]:
    return sorted(counter.items(), key=lambda entry: (-entry[1], entry[0]))
