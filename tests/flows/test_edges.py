"""What crosses the edge to the engine: names, file patterns and errors, without the engine."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from pydantic import ValidationError

from nightscreen.config.parameters import ScreenBatch
from nightscreen.flows.screen_batch import batch_and_purpose, newest_input
from nightscreen.runs.run_report import quote_document
from nightscreen.schemas.bvn import ConfirmBvns, RequestBvns
from nightscreen.schemas.errors import InputError, JournalError, UnexpectedFault, foremost
from nightscreen.schemas.naming import batch_name
from nightscreen.tasks import engine_run
from nightscreen.tasks.engine_run import shield_until_done
from nightscreen.tasks.error_boundary import sanitize_errors, sanitized

BVN = "22212345678"


def test_unforeseen_errors_lose_their_text() -> None:
    """Kind and place of a fault are reported, the values in it are not, nor what caused it."""

    class Broken:
        @property
        def quote(self) -> object:
            raise ValueError(f"bad bvn {BVN}") from KeyError(BVN)

    with pytest.raises(UnexpectedFault) as caught, sanitize_errors():
        quote_document(Broken())  # type: ignore[arg-type]  # it breaks at the first look
    assert BVN not in str(caught.value)
    assert "ValueError at runs/run_report.py" in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


def test_errors_of_ours_pass_as_they_are() -> None:
    """An error that says what to do next arrives as itself, even out of a group of tasks."""
    ours = JournalError("make room on the disk")
    group = BaseExceptionGroup("tasks", [ValueError(BVN), ExceptionGroup("more", [ours])])
    assert sanitized(ours) is ours
    assert sanitized(group) is ours
    assert BVN not in str(sanitized(ExceptionGroup("tasks", [ValueError(BVN)])))
    shards = ExceptionGroup("shards", [UnexpectedFault("it broke"), ExceptionGroup("", [ours])])
    assert foremost(shards) is ours
    assert foremost(ExceptionGroup("shards", [UnexpectedFault("it broke")])) is None


def test_pattern_stands_for_the_newest_file(tmp_path: Path) -> None:
    """A nightly run reads the file that arrived last, whatever the others are called."""
    for age, name in enumerate(("portfolio-20260303.csv", "portfolio-20260302.csv", "other.csv")):
        (tmp_path / name).write_text("customer_id\n")
        os.utime(tmp_path / name, (1_000_000 - age, 1_000_000 - age))
    (tmp_path / "portfolio-folder.csv").mkdir()
    asked = ScreenBatch(input=str(tmp_path / "portfolio-*.csv"), batch="portfolio")
    found = newest_input(asked)
    assert found.input == str(tmp_path / "portfolio-20260303.csv")
    assert found.batch == "portfolio"


def test_pattern_without_a_file_or_with_somebodys_is_an_input_error(tmp_path: Path) -> None:
    """An extract that did not arrive is asked after; the engine must not learn somebody's name."""
    with pytest.raises(InputError, match="has tonight's extract arrived"):
        newest_input(ScreenBatch(input=str(tmp_path / "portfolio-*.csv")))
    (tmp_path / "loans 0803 123 4567.csv").write_text("customer_id\nC1\n")
    with pytest.raises(InputError, match="rename it") as refused:
        newest_input(ScreenBatch(input=str(tmp_path / "loans*.csv")))
    assert "0803" not in str(refused.value)


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


NAMES: list[tuple[dict[str, str], str]] = [
    ({"batch": "salary", "input": "x.csv"}, "salary-portfolio"),
    ({"input": "in/portfolio-20260301.csv", "purpose": "origination"}, "portfolio-origination"),
    ({"input": "in/portfolio-*.csv"}, "portfolio"),
    ({"run": "20260301-220000-abcdef"}, "resume-20260301-220000-abcdef"),
    ({}, "batch-portfolio"),
]


def test_flow_run_is_named_by_batch_and_purpose(monkeypatch: pytest.MonkeyPatch) -> None:
    """The name tells the batch, read off the file's name where none was given."""
    for parameters, name in NAMES:

        class Runtime:
            parameters: dict[str, object]

        for given in (parameters, ScreenBatch.model_validate(parameters)):
            runtime = Runtime()
            runtime.parameters = {"parameters": given}
            monkeypatch.setattr(engine_run, "flow_run", runtime)
            assert engine_run.named(batch_and_purpose)() == name, (parameters, name)


async def test_work_goes_to_the_end_through_cancellations() -> None:
    """Closing is not cut short by being cancelled twice, and the cancellation is passed on."""
    steps: list[int] = []

    async def close() -> None:
        for step in range(4):
            await asyncio.sleep(0.02)
            steps.append(step)

    closing = asyncio.get_running_loop().create_task(shield_until_done(close()))
    for _ in range(2):
        await asyncio.sleep(0.01)
        closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    assert steps == [0, 1, 2, 3]
