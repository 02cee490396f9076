"""Caps held against the ledger: one cell, and the table (`python -m tests.money.caps`).

The truth is what the service charged; what we believe to have spent proves nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from threading import Thread
from typing import Any

from nightscreen.config.parameters import ScreenBatch
from nightscreen.sandbox.batch import make_batch
from nightscreen.sandbox.process import SandboxProcess
from tests.kill.drive import screen, settings_for

ROOT = Path(__file__).resolve().parents[2]
CHECKS = ("bank_account", "karma", "ecosystem")
IN_FLIGHT = (1, 4, 16, 64, 256)
STALE = {"list stale x2": 2, "list stale x4": 4, "list stale x20": 20}
"""Cases in which the service charges so many times what the price list says."""
LISTED = {"bank_account": Decimal(10), "karma": Decimal(10), "ecosystem": Decimal(25)}
CASES = ("calm", "lost answers", "price rises", "two processes", *STALE)
LOST = {"cut_after_charge": 0.05, "http_502_after_charge": 0.05, "truncated": 0.05}
PRICE, RISEN = Decimal(10), Decimal(17)
CHEAPEST = Decimal(10)


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell: what the cap was and what the service charged."""

    case: str
    in_flight: int
    cap: Decimal
    charged: Decimal
    believed: Decimal
    state: str
    reason: str
    pending: int

    @property
    def over(self) -> Decimal:
        """Return naira charged beyond the cap."""
        return max(Decimal(0), self.charged - self.cap)

    @property
    def allowed(self) -> Decimal:
        """Return naira it may be over.

        A rise under way times the calls in flight at that moment; where the list was wrong from the
        start, what the first charged call cost beyond it.
        """
        if self.case in STALE:
            return max(LISTED.values()) * (STALE[self.case] - 1)
        return (RISEN - PRICE) * self.in_flight if self.case == "price rises" else Decimal(0)

    @property
    def unused(self) -> Decimal:
        """Return naira neither spent nor in doubt that were left under the cap."""
        return self.cap - self.believed

    def holds(self) -> bool:
        """Return whether the cap held, and whether its money was used while rows needed it."""
        cheapest = CHEAPEST * STALE.get(self.case, 1)
        used = self.unused < cheapest if self.pending else True
        return self.over <= self.allowed and used and self.reason == "budget"


def _raise_the_price(sandbox: SandboxProcess) -> None:
    """Raise the price of bank accounts once forty were asked about; the run is under way then."""
    asked = 0
    while asked < 40:
        time.sleep(0.005)
        asked = (
            sandbox.totals()["totals"]["by_operation"].get("bank_account", {}).get("requests", 0)
        )
    sandbox.post("/_sandbox/prices", {"bank_account": str(RISEN)})


def measure(case: str, in_flight: int, below: Path, *, rows: int = 260, cap: int = 1703) -> Cell:
    """Run one cell against a sandbox of its own."""
    caps = dict.fromkeys(CHECKS, in_flight)
    with SandboxProcess(seed=in_flight) as sandbox:
        sandbox.post("/_sandbox/latency", {"kind": "fixed", "ms": 4})
        if case in {"lost answers", "two processes"}:
            sandbox.post("/_sandbox/faults", {"rates": LOST})
        if case == "price rises":
            Thread(target=_raise_the_price, args=(sandbox,), daemon=True).start()
        if case in STALE:
            now = {name: str(price * STALE[case]) for name, price in LISTED.items()}
            sandbox.post("/_sandbox/prices", now)
        if case == "two processes":
            reports = _two(below, sandbox, caps, rows, cap)
        else:
            make_batch(below / "in.csv", rows=rows, seed=5, damage_pct=0)
            given = ScreenBatch(
                input=str(below / "in.csv"), output=str(below / "out"), max_spend=str(cap)
            )
            settings = settings_for(
                below / "home",
                sandbox.url,
                sandbox.api_key,
                max_in_flight=caps,
                tolerated_failure_pct=100,
            )
            reports = [screen(given, settings).report]
        sandbox.wait_until_idle()
        charged = Decimal(sandbox.totals()["totals"]["charged"])
    return _cell(case, in_flight, Decimal(cap), charged, reports)


def _cell(
    case: str, in_flight: int, cap: Decimal, charged: Decimal, reports: list[dict[str, Any]]
) -> Cell:
    costs = [report["cost"] for report in reports]
    return Cell(
        case,
        in_flight,
        cap,
        charged,
        sum(
            (Decimal(cost["total"]) + Decimal(cost["in_doubt_exposure"]) for cost in costs),
            Decimal(0),
        ),
        "/".join(report["state"] for report in reports),
        reports[0]["stop_reason"],
        sum(check["pending"] for report in reports for check in report["checks"].values()),
    )


def _two(
    below: Path, sandbox: SandboxProcess, caps: dict[str, int], rows: int, cap: int
) -> list[dict[str, Any]]:
    """Let two processes with batches of their own spend under one daily cap."""
    children = []
    for seed in (1, 2):
        make_batch(below / f"in{seed}.csv", rows=rows, seed=seed, damage_pct=0)
        told = {
            "settings": {
                "home": str(below / "home"),
                "url": sandbox.url,
                "api_key": sandbox.api_key,
                "max_in_flight": caps,
                "daily_spend_cap": str(cap),
                "tolerated_failure_pct": 100,
            },
            "parameters": {"input": str(below / f"in{seed}.csv"), "output": str(below / "out")},
        }
        children.append(
            subprocess.Popen(
                [sys.executable, "-m", "tests.kill.drive", json.dumps(told)],
                env={**os.environ, "PYTHONPATH": str(ROOT)},
                cwd=below,
                stdout=subprocess.PIPE,
            )
        )
    said = [child.communicate(timeout=180)[0] for child in children]
    assert [child.returncode for child in children] == [0, 0]
    return [json.loads(each) for each in said]


def main() -> None:
    """Print the table of overshoot."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--in-flight", type=int, nargs="*", default=list(IN_FLIGHT))
    given = parser.parse_args()
    sys.stdout.write(
        "in flight | case | cap ₦ | charged ₦ | over ₦ | allowed ₦ | unused ₦ | result\n"
    )
    broken = False
    for in_flight in given.in_flight:
        for case in CASES:
            with tempfile.TemporaryDirectory() as folder:
                cell = measure(case, in_flight, Path(folder))
            cells = (
                *(in_flight, case, cell.cap, cell.charged, cell.over, cell.allowed, cell.unused),
                "holds" if cell.holds() else f"BROKEN {cell}",
            )
            sys.stdout.write(" | ".join(str(each) for each in cells) + "\n")
            sys.stdout.flush()
            broken = broken or not cell.holds()
    sys.exit(broken)


if __name__ == "__main__":
    main()
