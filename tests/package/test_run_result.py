"""`nightscreen.open_run`: a run's files as data frames of the right types."""

from __future__ import annotations

import json
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

import nightscreen
from nightscreen.schemas.errors import InputError


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    """Neither a folder of something else nor a run without transactions ends in a traceback."""
    with pytest.raises(InputError, match=r"report\.json"):
        nightscreen.open_run(tmp_path)
    (tmp_path / "report.json").write_text("{}")
    with pytest.raises(InputError, match="transactions pull"):
        _ = nightscreen.open_run(tmp_path).transactions


def test_transactions_of_a_pull_and_of_all_pulls(tmp_path: Path) -> None:
    """A pull's folder gives what it wrote; a screening's all that lie beside it."""
    kind = pa.schema([("customer_id", pa.string()), ("amount", pa.decimal128(20, 2))])
    for day, amount in (("2026-03-01", "10.05"), ("2026-03-02", "20.10")):
        part = tmp_path / "transactions" / f"pulled_on={day}"
        part.mkdir(parents=True)
        table = pa.Table.from_pylist([{"customer_id": "001", "amount": Decimal(amount)}], kind)
        pa.parquet.write_table(table, part / f"{day}.parquet")
    file = "transactions/pulled_on=2026-03-02/2026-03-02.parquet"
    for name, report in (("pull", {"transactions": {"file": file}}), ("screening", {})):
        (tmp_path / name).mkdir()
        (tmp_path / name / "report.json").write_text(json.dumps(report))
    one = nightscreen.open_run(tmp_path / "pull").transactions
    every = nightscreen.open_run(tmp_path / "screening").transactions
    assert list(one["amount"]) == [Decimal("20.10")]
    assert list(one["customer_id"]) == ["001"]
    assert every["amount"].sum() == Decimal("30.15")
    assert sorted(every["pulled_on"].astype(str)) == ["2026-03-01", "2026-03-02"]


def test_the_package_alone_loads_no_pandas() -> None:
    """It is loaded where a run is opened, not by commands."""
    code = "import nightscreen, sys; print('pandas' in sys.modules, nightscreen.open_run.__name__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "open_run"]
