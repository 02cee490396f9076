"""The numbers behind the report: what is new, and branches that may name a customer."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from nightscreen.report.facts import facts_of
from nightscreen.schemas.clock import to_micros
from tests.results.enriched_in_a_test import ASKED_AT, enriched_row, enriched_table, listed

NOW = to_micros(ASKED_AT)


def row(decision: str, exposure: int | None, **cells: Any) -> dict[str, Any]:  # noqa: ANN401 - any cell
    """Return a row of a customer whose credit history was not asked for."""
    owed = None if exposure is None else Decimal(exposure)
    return enriched_row(
        "C", decision=decision, exposure=owed, **{"ecosystem_status": "off", **cells}
    )


def parts(folder: Path, *tables: pa.Table) -> list[Path]:
    files = [folder / f"part-{number:05d}.parquet" for number in range(len(tables))]
    for table, file in zip(tables, files, strict=True):
        pq.write_table(table, file)
    return files


def test_news_tell_turned_from_first_decisions(tmp_path: Path) -> None:
    """A decline that was an approval, one that stays, and one that is a first are told apart."""
    table = enriched_table(
        [
            row("decline", 100, **listed("7")),
            row("decline", 10),
            row("decline", None, **listed("9")),
            row("approve", 1),
        ]
    )
    news_of_rows = pa.table(
        {
            ":previous": ["approve", "decline", None, "approve"],
            ":change": ["new_listing", None, "new", None],
        }
    )
    facts = facts_of(parts(tmp_path, table.slice(0, 1), table.slice(1)), news_of_rows, at=NOW)
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


def test_a_row_without_reasons_counts_in_every_other_figure(tmp_path: Path) -> None:
    """A null list of reasons leaves the customer in the report."""
    facts = facts_of(parts(tmp_path, enriched_table([row("approve", 5, reasons=None)])), at=NOW)
    assert facts["exposure"]["total"] == "5.00"
    assert facts["decisions"] == {"approve": 1}
    assert facts["reasons"] == []


def test_a_branch_that_may_name_a_customer_has_no_line(tmp_path: Path) -> None:
    """Fewer than five customers, a value like an identifier, or none: counted among the others."""
    numbers = ["08031234567"] * 6 + ["0803 123 4567"] * 5 + ["221-2345-6789 (Ada)"] * 5
    values = [" Ikeja "] * 5 + ["Kano"] * 4 + numbers + ["ada@lender.example"] * 5 + [None, ""]
    rows = [row("decline", 1) for _ in values]
    table = enriched_table(rows).append_column("Branch Name", pa.array(values, pa.string()))
    groups = facts_of(parts(tmp_path, table.slice(0, 3), table.slice(3)), at=NOW)["groups"]
    assert list(groups) == ["branch"]
    assert [(each["name"], each["rows"]) for each in groups["branch"]] == [
        ("Ikeja", 5),
        ("(others)", 27),
    ]
    assert groups["branch"][0]["decisions"]["decline"]["exposure"] == "5.00"
