"""On call, with a real server: pages arrive, and what can wait is in the morning summary."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from prefect import get_client
from prefect.blocks.notifications import CustomWebhookNotificationBlock

from nightscreen.config.parameters import ScreenBatch
from nightscreen.flows.housekeeping import morning_summary
from nightscreen.flows.screen_batch import screen_batch
from nightscreen.sandbox.batch import make_batch
from nightscreen.sandbox.process import SandboxProcess
from tests.flows.engine_in_a_test import Engine, until
from tests.services import answering

pytestmark = [pytest.mark.engine, pytest.mark.alone, pytest.mark.long]

AUTOMATIONS = Path("deploy/automations.yaml").read_text("utf-8")


def _removed(engine: Engine, automation: str) -> bool:
    """Remove an automation; a busy server asks for patience by a 503."""
    return engine.api.delete(f"/automations/{automation}").is_success


@pytest.fixture
def telephone(at_home: Path, engine: Engine) -> Iterator[list[dict[str, str]]]:
    """Give what rang, and a notification block on the server that makes it ring.

    No automation stays behind: one that waits for seconds only takes any busy run for dead.
    """
    rang: list[dict[str, str]] = []

    def ring(_asked: object, body: bytes) -> tuple[int, bytes]:
        rang.append(json.loads(body))
        return 200, b"{}"

    with answering(ring) as address:
        block = CustomWebhookNotificationBlock(
            name="on-call",
            url=f"{address}/ring",
            json_data={"subject": "{{subject}}", "body": "{{body}}"},
        )
        saved = block.save("on-call", overwrite=True)
        if asyncio.iscoroutine(saved):
            asyncio.run(saved)
        yield rang
        for each in engine.post("/automations/filter"):
            until(partial(_removed, engine, each["id"]), "an automation's removal")


async def create(engine: Engine, below: Path) -> list[str]:
    """Create the automations as docs/operate.md says, filled in below a folder; name them."""
    async with get_client() as client:
        block = await client.read_block_document_by_name("on-call", "custom-webhook")
    text = re.sub("PAGE_BLOCK|SUMMARY_BLOCK", str(block.id), AUTOMATIONS)
    file = below / "automations.yaml"
    file.write_text(text, "utf-8")
    typed = [sys.executable, "-m", "prefect", "automation", "create", "--from-file", str(file)]
    made = await asyncio.to_thread(
        subprocess.run, typed, env=engine.env, capture_output=True, text=True, check=False
    )
    assert made.returncode == 0, made.stdout + made.stderr
    async with get_client() as client:
        return [each.name for each in await client.read_automations()]


async def test_test_mode_wakes_a_person_and_a_stop_waits_for_the_morning(
    telephone: list[dict[str, str]], engine: Engine, sandbox: SandboxProcess, at_home: Path
) -> None:
    """One page at once, with what to type; the empty wallet is in the summary."""
    names = {"dead runs", "pages", "not started", "morning summary"}
    assert set(await create(engine, at_home)) == {f"nightscreen: {name}" for name in names}
    make_batch(at_home / "callers.csv", rows=30, seed=78)
    given = {"input": str(at_home / "callers.csv"), "output": str(at_home / "out")}
    sandbox.post("/_sandbox/wallet", {"balance": "200"})
    stopped: Any = await screen_batch(ScreenBatch(**given))
    assert stopped["stop_reason"] == "balance"
    sandbox.reset("test-mode")
    report: Any = await screen_batch(ScreenBatch(**given))
    assert report["state"] == "test_mode"
    (page,) = await asyncio.to_thread(until, lambda: list(telephone), "a page")
    assert "test mode" in page["subject"]
    assert f"nightscreen doctor {report['run_id']}" in page["body"]
    numbers = await morning_summary()
    assert (numbers["runs"], numbers["stopped"], numbers["test_mode"]) == (2, 1, 1)

    def summed_up() -> list[dict[str, str]]:
        return [each for each in telephone if "night of" in each["subject"]]

    (summary,) = await asyncio.to_thread(until, summed_up, "the morning summary")
    assert f"nightscreen doctor {stopped['run_id']}" in summary["body"]
    assert "the wallet is too low" in summary["body"]
    assert len(telephone) == 2
