"""Events of a run on a real server: how it ended, and a wallet that wants a look."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from flows.screen_batch import screen_batch
from sandbox.batch import make_batch
from schemas.parameters import ScreenBatch
from tests.flows.engine_in_a_test import until

if TYPE_CHECKING:
    from pathlib import Path

    from sandbox.process import SandboxProcess
    from tests.flows.engine_in_a_test import Engine

pytestmark = pytest.mark.engine


async def test_a_low_wallet_is_told_as_an_event(
    engine: Engine, sandbox: SandboxProcess, at_home: Path
) -> None:
    """The run's end and the low balance reach the server, with numbers and ids only."""
    sandbox.post("/_sandbox/wallet", {"balance": "900"})
    make_batch(at_home / "people.csv", rows=30, seed=77)
    report: Any = await screen_batch(
        ScreenBatch(input=str(at_home / "people.csv"), output=str(at_home / "out"))
    )
    assert any("balance is low" in notice for notice in report["notices"])
    batch = f"nightscreen.batch.{report['batch']}"
    asked = {"filter": {"event": {"prefix": ["nightscreen."]}, "resource": {"id": [batch]}}}

    def told() -> set[str]:
        found = {each["event"] for each in engine.post("/events/filter", asked)["events"]}
        return found if "nightscreen.balance.low" in found else set()

    assert "nightscreen.run.completed" in until(told, "the events of a run")
