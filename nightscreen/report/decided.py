"""Decided: on which evidence, for which reasons, and in which branch or by which officer.

Enriched rows are counted as they are written, a chunk at a time, with the naira at risk behind
them. Nothing here names a customer: a branch or officer with few customers has no line of its own.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from nightscreen.report.coverage import ExposureTotal, together, weigh
from nightscreen.schemas.checks import NoAnswer, Outcome
from nightscreen.schemas.policy import Decision

WITH_HISTORY, NO_HISTORY, NO_CONSENT = "with_history", "no_history", "no_consent"
NOT_ASKED, NOT_ANSWERED = "not_asked", "not_answered"
_BASIS = {
    Outcome.FOUND.value: WITH_HISTORY,
    Outcome.NOT_FOUND.value: NO_HISTORY,
    NoAnswer.REFUSED.value: NO_CONSENT,
    **dict.fromkeys(
        (NoAnswer.OFF.value, NoAnswer.INELIGIBLE.value, NoAnswer.INVALID.value), NOT_ASKED
    ),
}
"""The basis of a decision, by the status of the credit history.

Any other status has no answer yet.
"""

GROUPS = {
    "branch": ("branch", "branchname", "branchcode"),
    "officer": (
        *("officer", "loanofficer", "accountofficer", "creditofficer"),
        *("relationshipofficer", "relationshipmanager"),
    ),
}
"""Headings of lenders' files, letters alone, by which decisions are counted."""

FEWEST = 5
"""A branch or officer with fewer customers is counted among the others.

It might identify a customer.
"""
MOST_NAMED = 25
_MOST_VALUES = 20_000
OTHERS = "(others)"
_LIKE_AN_IDENTIFIER = re.compile(r"\d{8,}|@")
_BETWEEN = "\x1f"

Weights = defaultdict[tuple[str, ...], ExposureTotal]


@dataclass(slots=True)
class Decided:
    """Counts rows by decision, evidence and reasons, and by the lender's own groups.

    Attributes:
        cells: by decision, basis and reasons.
        groups: by group, its value and decision.
    """

    cells: Weights = field(default_factory=lambda: defaultdict(ExposureTotal))
    groups: dict[str, Weights] = field(default_factory=dict)

    def take(self, table: pa.Table) -> None:
        """Enter a chunk of enriched rows."""
        exposure = table["exposure"] if "exposure" in table.column_names else None
        decision = table["decision"].cast(pa.string())
        keys = {
            "decision": decision,
            "history": table[f"{'ecosystem'}_status"].cast(pa.string()),
            "reasons": pc.binary_join(table["reasons"], _BETWEEN),
        }
        for (word, history, reasons), weight in weigh(keys, exposure, table.num_rows):
            basis = _BASIS.get(history, NOT_ANSWERED)
            self.cells[word, basis, reasons or ""].add(weight)
        for group, name in group_columns(table.column_names).items():
            keys = {"value": table[name].cast(pa.string()), "decision": decision}
            cells = self.groups.setdefault(group, defaultdict(ExposureTotal))
            for (value, word), weight in weigh(keys, exposure, table.num_rows):
                text = (value or "").strip()
                known = text and not _LIKE_AN_IDENTIFIER.search(text)
                many = len(cells) > _MOST_VALUES and (text, word) not in cells
                cells[text if known and not many else OTHERS, word].add(weight)

    def evidence(self) -> dict[str, Any]:
        """Return what each decision rests on: customers and naira with a history and without."""
        found: dict[str, Any] = {}
        for decision in sorted({key[0] for key in self.cells}):
            bases = sorted({key[1] for key in self.cells if key[0] == decision})
            found[decision] = {
                basis: together(
                    weight for key, weight in self.cells.items() if key[:2] == (decision, basis)
                ).report()
                for basis in bases
            }
        return found

    def reasons(self) -> list[dict[str, Any]]:
        """Return customers and naira behind each reason: as the one that decided, and beside it.

        The main reason of a row is its first. Missing evidence leaves a row undecided, and has no
        code.
        """
        main: Weights = defaultdict(ExposureTotal)
        further: Weights = defaultdict(ExposureTotal)
        for (decision, _, joined), weight in self.cells.items():
            codes = joined.split(_BETWEEN) if joined else []
            if decision == Decision.UNDECIDED.value or not codes:
                codes = ["", *codes]
            main[decision, codes[0]].add(weight)
            for code in codes[1:]:
                further[decision, code].add(weight)
        order = sorted(
            {*main, *further},
            key=lambda key: (key[0], -_rows(main, key), -_rows(further, key), key[1]),
        )
        return [
            {
                "decision": key[0],
                "code": key[1] or None,
                "main": main.get(key, ExposureTotal()).report(),
                "further": further.get(key, ExposureTotal()).report(),
            }
            for key in order
        ]

    def by_group(self) -> dict[str, list[dict[str, Any]]]:
        """Return decisions by branch and officer, those with the most to decline first."""
        return {group: _largest(cells) for group, cells in self.groups.items()}


def _rows(weights: Weights, key: tuple[str, ...]) -> int:
    return weights[key].rows if key in weights else 0


def group_columns(names: list[str]) -> dict[str, str]:
    """Return which columns of a file are a branch and an officer: the first heading of each."""
    folded = {re.sub("[^a-z]", "", name.casefold()): name for name in reversed(names)}
    found = {
        group: next((folded[heading] for heading in headings if heading in folded), None)
        for group, headings in GROUPS.items()
    }
    return {group: name for group, name in found.items() if name is not None}


def _largest(cells: Weights) -> list[dict[str, Any]]:
    """Return the values of a group with their decisions; small ones and the rest as one."""
    sizes: dict[str, int] = defaultdict(int)
    for (value, _), weight in cells.items():
        sizes[value] += weight.rows
    named = [value for value, rows in sizes.items() if rows >= FEWEST and value != OTHERS]
    declined = {
        value: cells.get((value, Decision.DECLINE.value), ExposureTotal()) for value in named
    }
    named.sort(key=lambda value: (-declined[value].kobo, -sizes[value], value))
    shown = set(named[:MOST_NAMED])
    merged: Weights = defaultdict(ExposureTotal)
    for (value, decision), weight in cells.items():
        merged[value if value in shown else OTHERS, decision].add(weight)
    order = [*named[:MOST_NAMED], *([OTHERS] if any(key[0] == OTHERS for key in merged) else [])]
    return [
        {
            "name": value,
            **together(weight for key, weight in merged.items() if key[0] == value).report(),
            "decisions": {
                word.value: merged.get((value, word.value), ExposureTotal()).report()
                for word in Decision
            },
        }
        for value in order
    ]
