"""The report's figures from the enriched rows: customers and their naira at risk, each once.

One locked-down DuckDB connection reads the rows as a stream of columns (`facts.sql`). No figure
identifies a customer: branches and officers with few customers are counted together.
"""

from __future__ import annotations

import csv
import re
from collections import Counter, defaultdict
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from nightscreen.checks.registry import ANSWERED, CHECKS
from nightscreen.files.frame import read_queries
from nightscreen.files.quarantine import quarantined
from nightscreen.policy.engine import locked_connection, streamed
from nightscreen.report.format import CAUSES, HISTORY, added
from nightscreen.results.enriched import columns_of_parts, read_customers
from nightscreen.schemas.naming import contains_identifier
from nightscreen.schemas.policy import Decision

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from duckdb import DuckDBPyConnection

OPEN = list(CAUSES)[:5]  # causes with an answer due: the row needs it and may have it
WITH_HISTORY = "with_history"
OTHERS = "(others)"
GROUPS = {
    "branch": ("branch", "branchname", "branchcode"),
    "officer": (
        *("officer", "loanofficer", "accountofficer", "creditofficer"),
        *("relationshipofficer", "relationshipmanager"),
    ),
}
"""Headings of lenders' files, only their letters, by which decisions are counted."""
NIGHTS = 14  # how many runs of a batch the report compares
_FEWEST = 5
_MOST_NAMED = 25
_LARGEST = 5
"""How many of the largest approvals without a credit history have their amount in the report."""
_AGES = {"1": 1, "7": 7, "30": 30, "90": 90, "older": None, "none": None}
"""The classes of `age` in facts.sql, with their upper end in days."""
_BLOCK_ROWS = 65_536  # rows read at once, of few columns: bounds memory
_WIDE = pa.decimal128(38, 2)  # the widest type: any sum of exposures fits
_QUERIES = Path(__file__).with_name("facts.sql")
_Weight = dict[str, Any]
_NOTHING: _Weight = {"rows": 0, "exposure": "0.00", "unknown_rows": 0}


def _columns_of(check: str) -> tuple[str, str]:
    return f"{check}_status", f"{check}_source"


_CUSTOMERS = pa.schema(
    [
        *(pa.field(name, pa.string()) for check in CHECKS for name in _columns_of(check)),
        pa.field("decision", pa.string()),
        pa.field("reasons", pa.list_(pa.string())),
        pa.field("exposure", _WIDE),
        pa.field("karma_amount_in_contention", _WIDE),
        pa.field("oldest", pa.int64()),
        pa.field("previous", pa.string()),
        pa.field("change", pa.string()),
        *(pa.field(group, pa.string()) for group in GROUPS),
    ]
)
"""The rows that are counted: `oldest` is the instant of a row's oldest answer, `previous` the
previous decision, `change` the most important change, `branch` and `officer` the file's own."""


def facts_of(parts: Sequence[Path], news: pa.Table | None = None, *, at: int) -> dict[str, Any]:
    """Return the figures of a run's enriched parts, under the names of `report.json`.

    `news` is that of `changes.Comparison`, None without a comparison.

    A weight is `rows`, `exposure` (decimal text in naira) and `unknown_rows`, those with unknown
    exposure. By check, `answers` has the rows by status and `asked` those that this run made calls
    for. `coverage` has the rows that need at least one answer and may have it, and among these the
    rows that have all. `fresh` is the weight of the rows with an answer of every check. `ages` is
    by a row's oldest evidence: `days` is the upper end of a class, None for the oldest class and
    for rows without evidence. `evidence` is by decision and by what is known about the credit
    history. `news` is what changed since each customer's last answered state, None without a
    comparison. The age of evidence is measured at the instant `at`, in microseconds.
    """
    names = columns_of_parts(parts)
    groups = group_columns(names)
    wanted = {*_CUSTOMERS.names, *(f"{check}_checked_at" for check in CHECKS), *groups.values()}
    batches = (
        batch
        for table in read_customers(parts, wanted, _BLOCK_ROWS, news)
        for batch in _customers(table, groups).to_batches()
    )
    figures: dict[str, dict[str, _Weight]] = defaultdict(dict)
    claimed = "0.00"
    with locked_connection(optimizer=False) as connection:
        with streamed(connection, "customers", _CUSTOMERS, batches):
            _run(connection, "cells", at=at)
        for figure, word, weight, naira in _run(connection, "weights"):
            figures[figure][word] = weight
            claimed = naira if word == "new_listing" else claimed
        largest = _run(connection, "largest")
        by_group = _by_column(_run(connection, "groups"))
    whole = defaultdict(lambda: _NOTHING, figures["whole"])
    total, fresh, decisions = whole["total"], whole["fresh"], figures["decision"]
    statuses = {check: figures[f"{check} is"] for check in CHECKS}
    amounts = {f"decision_{word}": weight for word, weight in decisions.items()}
    for check, weighed in statuses.items():
        amounts |= {f"{check}_{word}": weight for word, weight in weighed.items() if word in CAUSES}
    return {
        "answers": {check: _rows(weighed) for check, weighed in statuses.items()},
        "asked": {check: _rows(figures[f"{check} asked"]) for check in CHECKS},
        "coverage": {"due_rows": whole["due"]["rows"], "answered_rows": whole["answered"]["rows"]},
        "fresh": {
            **fresh,
            "exposure_pct": share_pct(Decimal(fresh["exposure"]), Decimal(total["exposure"])),
            "rows_pct": share_pct(fresh["rows"], total["rows"]),
        },
        "ages": [
            {"days": days, "evidence": age != "none", **figures["age"].get(age, _NOTHING)}
            for age, days in _AGES.items()
        ],
        "exposure": {
            "total": total["exposure"],
            "unknown_rows": total["unknown_rows"],
            "not_screened": {
                **whole["not_screened"],
                "causes": {
                    each: figures["cause"][each] for each in CAUSES if each in figures["cause"]
                },
            },
            "nothing_to_ask": whole["nothing_to_ask"],
            **{name: amounts[name]["exposure"] for name in sorted(amounts) if "exposure" in names},
        },
        "decisions": _rows(decisions),
        "evidence": {word: figures[f"{word} on"] for word in decisions},
        "largest_without_history": [
            {"exposure": exposure, "basis": basis} for exposure, basis in largest
        ],
        "reasons": [
            {"decision": word, **reason}
            for word in decisions
            for reason in _reasons(figures[f"{word} for"], figures[f"{word} also for"])
        ],
        "groups": by_group,
        "news": {
            "new_listings": {**whole["new_listing"], "in_contention": claimed},
            "listed_at_first_sight": whole["listed_at_first_sight"],
            "decisions": {
                word.value: {
                    name: figures[name].get(word, _NOTHING) for name in ("turned", "first")
                }
                for word in Decision
            },
        }
        if news is not None
        else None,
    }


def _rows(weights: Mapping[str, _Weight]) -> dict[str, int]:
    return {word: weight["rows"] for word, weight in weights.items()}


def _reasons(main: Mapping[str, _Weight], further: Mapping[str, _Weight]) -> list[dict[str, Any]]:
    """Return a decision's reasons, the most frequent main reason first."""
    reasons = [
        {
            "code": code or None,
            "main": main.get(code, _NOTHING),
            "further": further.get(code, _NOTHING),
        }
        for code in sorted(main.keys() | further.keys())
    ]
    return sorted(reasons, key=lambda each: (-each["main"]["rows"], -each["further"]["rows"]))


def _by_column(
    weighed: Iterable[tuple[str, str, str, _Weight]],
) -> dict[str, list[dict[str, Any]]]:
    """Return the weights of branches and officers, in order, each in all and by decision."""
    groups: dict[str, dict[str, dict[str, _Weight]]] = {}
    for column, decision, name, weight in weighed:
        groups.setdefault(column, {}).setdefault(name, {})[decision] = weight
    return {
        column: [
            {
                "name": name,
                **added(of.values()),
                "decisions": {word.value: of.get(word, _NOTHING) for word in Decision},
            }
            for name, of in names.items()
        ]
        for column, names in groups.items()
    }


def _customers(table: pa.Table, groups: Mapping[str, str]) -> pa.Table:
    """Return rows in the schema of `_CUSTOMERS`; `groups` are the file's columns of groups."""
    nothing = pa.nulls(table.num_rows)
    values = {name: table[name] for name in table.column_names}
    times = [values.get(f"{check}_checked_at", nothing).cast(pa.int64()) for check in CHECKS]
    values["oldest"] = pc.min_element_wise(*times, skip_nulls=True)
    for group, name in groups.items():
        written = pc.fill_null(table[name].cast(pa.string()), "").combine_chunks()
        texts = written.dictionary_encode()
        shown = [
            OTHERS if contains_identifier(each) else each for each in texts.dictionary.to_pylist()
        ]
        values[group] = pa.array(shown, pa.string()).take(texts.indices)
    values["previous"] = values.get(":previous", nothing)
    values["change"] = values.get(":change", nothing)
    columns = [values.get(each.name, nothing).cast(each.type) for each in _CUSTOMERS]
    return pa.table(columns, schema=_CUSTOMERS)


_VALUES: dict[str, Any] = {
    "checks": ", ".join(name for check in CHECKS for name in _columns_of(check)),
    "statuses": ", ".join(f"{check}_status" for check in CHECKS),
    "of_checks": ", ".join(
        f"part('{check} is', {check}_status), "
        f"part('{check} asked', {check}_status, {check}_source = 'asked')"
        for check in CHECKS
    ),
    "causes": list(CAUSES),
    "open": OPEN,
    "answered": sorted(ANSWERED),
    "others": OTHERS,
    "bases": " ".join(
        f"WHEN status IN ({', '.join(map(repr, statuses))}) THEN '{basis}'"
        for basis, statuses in HISTORY.items()
    ),
    "fewest": _FEWEST,
    "most_named": _MOST_NAMED,
    "largest": _LARGEST,
}


def _run(connection: DuckDBPyConnection, section: str, **values: int) -> list[tuple[Any, ...]]:
    """Execute the statements of a section, and return the rows of the last one."""
    for statement in read_queries(_QUERIES)[section]:
        connection.execute(statement.format_map(_VALUES | values))
    return connection.fetchall()


def group_columns(names: Sequence[str]) -> dict[str, str]:
    """Return the file's columns of branch and officer: the first known heading of each."""
    folded = {re.sub("[^a-z]", "", name.casefold()): name for name in reversed(names)}
    columns = {
        group: next((folded[heading] for heading in headings if heading in folded), None)
        for group, headings in GROUPS.items()
    }
    return {group: name for group, name in columns.items() if name is not None}


def share_pct(part: int | Decimal, whole: int | Decimal) -> float | None:
    """Return a share in percent to two places; None if the whole is 0.

    Less than all is never shown as 100, and more than nothing never as 0.
    """
    if whole <= 0:
        return None
    hundredths = int((Decimal(10_000) * part / whole).to_integral_value(ROUND_HALF_UP))
    if 0 < part < whole:
        hundredths = min(max(hundredths, 1), 9_999)
    return hundredths / 100


def nights_of(
    report: Mapping[str, Any], earlier: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Return decisions, listings and cost of a batch's last runs, the report's own run last.

    Of the earlier runs, given newest first, only publishable ones count.
    """
    before = report["started_at"]
    published = [
        night for night in earlier if night["publishable"] and night["started_at"] < before
    ]
    return [
        {
            "run_id": night["run_id"],
            "started_at": night["started_at"],
            "decisions": dict(night["decisions"]),
            "new_listings": night["news"]["new_listings"]["rows"] if night["news"] else None,
            "cost": night["cost"]["total"],
        }
        for night in [*reversed(published[: NIGHTS - 1]), report]
    ]


def findings_of(quarantine: Path, problems: Path) -> dict[str, Any]:
    """Return the part `findings` of the report, most frequent first, without any value of a row.

    Returns:
        `quarantined`: rows by the code of their refusal; `values`: entries of `problems.csv` about
        accepted rows, as code, action (`invalid`, `repaired`, `warned`) and count.
    """
    refused = Counter(code for _, _, code, _ in quarantined(quarantine))
    flaws: Counter[tuple[str, str]] = Counter()
    if problems.exists():
        with problems.open(encoding="utf-8", newline="") as file:
            flaws.update((row["code"], row["action"]) for row in csv.DictReader(file))
    return {
        "quarantined": dict(_ordered(refused)),
        "values": [
            {"code": code, "action": action, "count": count}
            for (code, action), count in _ordered(flaws)
            if action != "refused"
        ],
    }


def _ordered(counter: Counter[Any]) -> list[tuple[Any, int]]:
    return sorted(counter.items(), key=lambda entry: (-entry[1], entry[0]))
