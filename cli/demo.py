"""`nightscreen demo`: the product at work on made-up people, against the simulator; no key needed.

Two nights of the same batch: the second costs nothing. Everything lies under one folder.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import TYPE_CHECKING, Any

import typer

from cli.summary import naira, print_summary

if TYPE_CHECKING:
    from pathlib import Path

SEED = 1
DAMAGE_PCT = 2.0
_CAPS = {"BANK_ACCOUNT": "40", "KARMA": "40", "ECOSYSTEM": "40"}


def demonstrate(rows: int, output: Path, *, json_output: bool) -> int:
    """Screen a made-up batch twice against the simulator and return the exit status."""
    from sandbox.batch import make_batch
    from sandbox.process import SandboxProcess
    from storage.private import make_private_folder

    say = _quiet if json_output else typer.echo
    folder = make_private_folder(output)
    file = folder / "customers.csv"
    facts = make_batch(file, rows=rows, seed=SEED, damage_pct=DAMAGE_PCT)
    say(f"Made {facts.rows:,} customers up, about {DAMAGE_PCT:.0f} % of them damaged: {file}")
    with SandboxProcess(balance="5000000") as sandbox:
        say(f"The simulator of the service runs at {sandbox.url}")
        _point_at(sandbox.url, sandbox.api_key, folder)
        first, second = asyncio.run(_two_nights(file, folder))
        ledger = sandbox.totals()
    if json_output:
        document = {"nights": [first, second], "ledger": ledger}
        sys.stdout.write(json.dumps(document, indent=2) + "\n")
        return 0
    say("\nFirst night")
    print_summary(first, folder / "out")
    say("\nSecond night, the same customers")
    print_summary(second, folder / "out")
    say(
        f"\nThe simulator's own ledger: {naira(ledger['totals']['charged'])} charged in all; "
        f"the second night saved {naira(second['cost']['saved_by_reuse'])}."
    )
    return 0


def _quiet(_text: str) -> None:
    """Say nothing, where stdout belongs to one JSON document."""


def _point_at(url: str, api_key: str, folder: Path) -> None:
    """Set the environment of this process to the simulator and a HOME of the demo's own."""
    os.environ["NIGHTSCREEN_BASE_URL"] = url
    os.environ["NIGHTSCREEN_API_KEY"] = api_key
    os.environ["NIGHTSCREEN_HOME"] = str(folder / "home")
    os.environ.pop("NIGHTSCREEN_JOURNAL_URL", None)
    os.environ.pop("NIGHTSCREEN_DATA_KEY", None)
    for check, cap in _CAPS.items():
        os.environ[f"NIGHTSCREEN_MAX_IN_FLIGHT__{check}"] = cap


async def _two_nights(file: Path, folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    from cli.screen import prepare_engine

    prepare_engine()
    from cli.panel import show_panel
    from flows.screen_batch import screen_batch
    from schemas.parameters import ScreenBatch

    parameters = ScreenBatch(input=str(file), batch="demo", output=str(folder / "out"), yes=True)
    async with show_panel():
        first = await screen_batch(parameters)
        second = await screen_batch(parameters)
    return first, second
