"""Approval of spending in the Prefect UI: a real server pauses the run until someone resumes it."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import pytest

from nightscreen.flows.screen_batch import screen_batch
from nightscreen.sandbox.batch import make_batch
from nightscreen.schemas.parameters import ScreenBatch
from tests.flows.engine_in_a_test import until

if TYPE_CHECKING:
    from pathlib import Path

    from nightscreen.sandbox.process import SandboxProcess
    from tests.flows.engine_in_a_test import Engine

pytestmark = pytest.mark.engine


def _screen(folder: Path, **options: Any) -> dict[str, Any]:  # noqa: ANN401
    make_batch(folder / "applicants.csv", rows=30, seed=5)
    parameters = ScreenBatch(
        input=str(folder / "applicants.csv"), output=str(folder / "out"), **options
    )
    report: dict[str, Any] = asyncio.run(screen_batch(parameters))  # type: ignore[arg-type]
    return report


def _paused(engine: Engine) -> dict[str, Any] | None:
    """Return a flow run that waits for approval."""
    asked = {"flow_runs": {"state": {"type": {"any_": ["PAUSED"]}}}}
    found = engine.post("/flow_runs/filter", asked)
    return found[0] if found else None


def _resume_when_paused(engine: Engine, *, approve: bool) -> threading.Thread:
    """Do what a person does in the UI: wait for the pause, fill in the form, resume."""

    def resume() -> None:
        run = until(lambda: _paused(engine), "a run that waits for approval")
        form = {"run_input": {"approve": approve}}

        def accepted() -> bool:  # a form that is being saved, or a busy server, asks for patience
            answer = engine.api.post(f"/flow_runs/{run['id']}/resume", json=form)
            return answer.is_success and answer.json()["status"] == "ACCEPT"

        until(accepted, "the answer taken")

    person = threading.Thread(target=resume)
    person.start()
    return person


@pytest.mark.parametrize("approve", [True, False])
def test_a_dear_run_waits_until_someone_decides(
    engine: Engine,
    sandbox: SandboxProcess,
    at_home: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    approve: bool,
) -> None:
    """Approved it spends; refused it stops with `approval`, and not one call was made."""
    monkeypatch.setenv("NIGHTSCREEN_APPROVAL_ABOVE", "1")
    monkeypatch.setenv("NIGHTSCREEN_APPROVAL_TIMEOUT", "PT3M")
    person = _resume_when_paused(engine, approve=approve)
    report = _screen(at_home)
    person.join()
    if approve:
        assert report["state"] == "completed"
        assert float(report["cost"]["total"]) > 0
    else:
        assert (report["state"], report["stop_reason"]) == ("stopped", "approval")
        assert sandbox.totals()["totals"]["requests"] == 0


def test_nobody_there_in_time_is_a_no(
    engine: Engine, sandbox: SandboxProcess, at_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the approval timeout the run stops with `approval` and a complete folder."""
    monkeypatch.setenv("NIGHTSCREEN_APPROVAL_ABOVE", "1")
    monkeypatch.setenv("NIGHTSCREEN_APPROVAL_TIMEOUT", "PT1S")
    report = _screen(at_home)
    assert report["stop_reason"] == "approval"
    assert sandbox.totals()["totals"]["requests"] == 0
    assert (at_home / "out" / report["run_id"] / "manifest.json").exists()


def test_spending_approved_beforehand_is_not_asked_about(
    sandbox: SandboxProcess, at_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`yes` lets a dear run go on at once."""
    monkeypatch.setenv("NIGHTSCREEN_APPROVAL_ABOVE", "1")
    assert _screen(at_home, yes=True)["state"] == "completed"
    assert sandbox.totals()["totals"]["requests"] > 0
