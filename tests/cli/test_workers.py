"""Several workers on the command line: what they need is reported before anything starts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nightscreen.sandbox.batch import make_batch

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from tests.cli.conftest import Here


def test_workers_need_a_server_that_runs(
    folder: Path, here: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A temporary server has no workers; one sentence says what to set, and nothing is begun."""
    make_batch(folder / "good.csv", rows=5, seed=1)
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    monkeypatch.setenv("PREFECT_HOME", str(folder / "prefect"))
    ended = here("screen", "good.csv", "--workers", "2")
    assert ended.status == 2
    assert "--workers needs a Prefect server that runs: set PREFECT_API_URL" in ended.err
    assert here("runs", "list", "--json").document == {"runs": []}


def test_an_output_url_without_a_driver_is_told(folder: Path, here: Here) -> None:
    """Before anything is asked, by the option's name."""
    make_batch(folder / "good.csv", rows=5, seed=1)
    ended = here("screen", "good.csv", "--output", "nosuchthing://bucket/out")
    assert ended.status == 2
    assert "--output: no driver for nosuchthing:// is installed" in ended.err
