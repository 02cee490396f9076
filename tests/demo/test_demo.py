"""One demo of 150 rows: every naira and every word of it."""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.cli.command import Ended, nightscreen, surroundings

pytestmark = pytest.mark.engine

ROWS = 150
ON_STDERR = (
    r"150 fictional customers, about 2 % with bad data: .*",
    r"The simulator runs at .*; nothing here costs real money\.",
    r"Starting a temporary Prefect server, about ten seconds .*",
    r"Run \S+: 150 rows read, .*",
    r"[\d,]+ of [\d,]+ done, .*",
)
Row = dict[str, Any]


@dataclass(frozen=True)
class Demo:
    """A demo that has ended: what it said, and what it left."""

    ended: Ended
    folder: Path
    first: Row
    second: Row
    ledger: Row
    rows: list[Row]


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Demo:
    """Return a demo that a newcomer ran in an empty folder, with nothing set."""
    folder = tmp_path_factory.mktemp("newcomer")
    env = surroundings(folder)
    env.pop("PREFECT_API_URL", None)
    ended = nightscreen("demo", "--rows", str(ROWS), "--json", cwd=folder, env=env, patience_s=600)
    assert ended.status == 0, ended.err
    first, second = ended.document["nights"]
    place = folder / ".nightscreen-demo"
    enriched = pq.read_table(place / "out" / first["run_id"] / "enriched")
    return Demo(
        ended,
        place,
        first,
        second,
        ended.document["ledger"],
        enriched.to_pylist(),
    )


def test_a_newcomer_sees_nothing_that_is_not_about_the_batch(demo: Demo) -> None:
    """No traceback, no warning, no line of the engine; the wait is announced first.

    Rows read are screened and quarantined, as the files have them, which are for their owner alone.
    """
    lines = demo.ended.err.splitlines()
    assert [line.split()[0] for line in lines[:3]] == ["150", "The", "Starting"]
    strange = [each for each in lines if not any(re.fullmatch(form, each) for form in ON_STDERR)]
    assert strange == []
    rows = demo.first["rows"]
    assert rows["read"] == ROWS == rows["screened"] + rows["quarantined"]
    assert rows["screened"] == len(demo.rows)
    quarantine = demo.folder / "out" / demo.first["run_id"] / "quarantine.csv"
    with quarantine.open(encoding="utf-8-sig", newline="") as file:
        assert len(list(csv.reader(file))) - 1 == rows["quarantined"]
    for path in (demo.folder, *demo.folder.rglob("*")):
        assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600), path


def test_every_naira_agrees_with_the_simulators_ledger(demo: Demo) -> None:
    """Report, rows, wallet and ledger say the same; the second night has it all for nothing."""
    cost, balance = demo.first["cost"], demo.first["balance"]
    charged = Decimal(demo.ledger["totals"]["charged"])
    assert Decimal(cost["total"]) == charged
    assert sum(row["cost"] for row in demo.rows) == charged
    assert Decimal(balance["opening"]) - Decimal(balance["closing"]) == charged
    assert balance["exact"] is True
    assert Decimal(balance["drift"]) == 0
    assert demo.ledger["totals"]["repeated_charges"] == 0
    assert Decimal(demo.second["cost"]["total"]) == 0
    assert demo.second["cost"]["saved_by_reuse"] == cost["total"]
    for check, first in demo.first["checks"].items():
        assert demo.second["checks"][check]["answers"] == first["answers"]
