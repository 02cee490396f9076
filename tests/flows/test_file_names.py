"""Names of files and batches: one that holds a customer's number or address goes nowhere."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from nightscreen.config.parameters import ScreenBatch
from nightscreen.flows.screen_batch import newest_input
from nightscreen.schemas.bvn import ConfirmBvns, RequestBvns
from nightscreen.schemas.errors import InputError
from nightscreen.schemas.naming import batch_name

KINDS = (ScreenBatch, RequestBvns, ConfirmBvns)
SOMEBODYS = ("22212345678.csv", "customer 0803 123 4567.xlsx", "ade@example.ng.csv")
NOBODYS = ("portfolio-2026-03-01.csv", "grace_period.csv", "20260301-batch.parquet")


def test_a_file_named_after_somebody_is_refused() -> None:
    """Every flow refuses it, and the error does not repeat it; dates are no customers' numbers."""
    for kind in KINDS:
        for name in SOMEBODYS:
            with pytest.raises(ValidationError, match="rename the file") as refused:
                kind(input=f"drop/{name}")
            assert Path(name).stem not in str(refused.value), (name, kind)
        for name in NOBODYS:
            assert kind(input=f"drop/{name}").input == f"drop/{name}", (name, kind)


def test_a_batch_name_is_nobodys() -> None:
    """The batch is shown everywhere, too."""
    assert batch_name(Path("portfolio-2026-03-01.csv")) == "portfolio"
    for kind in (ScreenBatch, RequestBvns):
        with pytest.raises(ValidationError, match="customer's number or email address"):
            kind(input="x.csv", batch="kyc 22212345678")


def test_the_newest_file_of_a_pattern_is_refused_by_its_name(tmp_path: Path) -> None:
    """A schedule names a pattern; the engine must not learn the name of such a file."""
    (tmp_path / "loans 0803 123 4567.csv").write_text("customer_id\nC1\n")
    with pytest.raises(InputError, match="rename it") as refused:
        newest_input(ScreenBatch(input=str(tmp_path / "loans*.csv")))
    assert "0803" not in str(refused.value)
