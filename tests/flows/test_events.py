"""Events of a run on a real server: how it ended, and a wallet that wants a look."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from nightscreen.config.parameters import ScreenBatch
from nightscreen.flows.screen_batch import screen_batch
from nightscreen.sandbox.batch import make_batch
from tests.flows.engine_in_a_test import until

if TYPE_CHECKING:
    from pathlib import Path

    from nightscreen.sandbox.process import SandboxProcess
    from tests.flows.engine_in_a_test import Engine

pytestmark = [pytest.mark.engine, pytest.mark.long]


async def test_a_low_wallet_is_told_as_an_event(
    engine: Engine, sandbox: SandboxProcess, at_home: Path
) -> None:
    """The run's end and the low balance reach the server, with numbers and ids only."""
    sandbox.post("/_sandbox/wallet", {"balance": "900"})
    make_batch(at_home / "people.csv", rows=30, seed=77)
    report: Any = await screen_batch(
        ScreenBatch(
            input=str(at_home / "people.csv"), output=str(at_home / "out"), batch="low-wallet"
        )
    )
    assert any("balance is low" in notice for notice in report["notices"])
    batch = f"nightscreen.batch.{report['batch']}"
    asked = {"filter": {"event": {"prefix": ["nightscreen."]}, "resource": {"id": [batch]}}}

    def told() -> dict[str, Any]:
        found = {each["event"]: each for each in engine.post("/events/filter", asked)["events"]}
        ends = {"nightscreen.balance.low", "nightscreen.run.completed"}
        return found if ends <= set(found) else {}

    events = until(told, "the events of a run")
    assert not [name for name in events if name.startswith("nightscreen.page.")]
    payload = events["nightscreen.run.completed"]["payload"]
    assert payload["cost"] == report["cost"]["total"]
    assert payload["new_listings"] == report["changes"]["new_listing"]
    words = {"run_id", "state", "stop_reason"}
    for name, value in payload.items():
        assert name in words or value is None or float(value) >= 0, name
    related = events["nightscreen.run.completed"]["related"]
    assert f"nightscreen.run.{report['run_id']}" in {
        each["prefect.resource.id"] for each in related
    }
