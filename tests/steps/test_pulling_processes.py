"""Many pulls at once, faults, tokens that expire, and a process that is killed: real processes."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pyarrow.parquet as pq
import pytest

from nightscreen.journal import open_journal
from nightscreen.sandbox.process import SandboxProcess
from nightscreen.sandbox.transactions import transactions_of
from tests.steps.pulls_in_a_test import consent_at

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.long

SHORT = 40
BEFORE_WORK = {"http_503": 0.02, "http_500": 0.01, "cut_before_charge": 0.02}
_PATIENCE_S = 120
_ROOT = Path(__file__).resolve().parents[2]


@dataclass
class Place:
    """A sandbox process, and a HOME and an output folder that pulls share."""

    folder: Path
    box: SandboxProcess
    journal_url: str = ""

    def __post_init__(self) -> None:
        self.http = httpx.Client(base_url=self.box.url, trust_env=False)

    def control(self, name: str, body: object) -> Any:  # noqa: ANN401 - a document
        """Steer the sandbox."""
        return self.http.post(f"/_sandbox/{name}", json=body).raise_for_status().json()

    def consent(self, number: int) -> None:
        """Let customers consent without a browser."""
        with open_journal(self.folder / "home", url=self.journal_url) as journal:
            consent_at(self.box, journal, map(name_of, range(number)))

    def start(self, output: str, **options: str) -> subprocess.Popen[str]:
        """Start a pull in a process of its own."""
        given = {
            "settings": {
                "base_url": self.box.url,
                "api_key": self.box.api_key,
                "home": str(self.folder / "home"),
                "journal_url": self.journal_url,
                "max_in_flight": {"aggregator": 32},
            },
            "options": {"output": str(self.folder / output), **options},
        }
        return subprocess.Popen(
            [sys.executable, "-m", "tests.steps.pull_drive", json.dumps(given)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=_ROOT,
        )

    def counts(self) -> dict[str, dict[str, int]]:
        """Return what the sandbox counted about each customer."""
        shown: dict[str, dict[str, int]] = self.http.get("/_sandbox/grants").json()["counts"]
        return shown

    def typed(self) -> Counter[tuple[str, str]]:
        """Return customer and id of every typed transaction in all outputs."""
        paths = self.folder.glob("out*/transactions/*/*.parquet")
        tables = [pq.read_table(path, columns=["customer_id", "transaction_id"]) for path in paths]
        return Counter(
            (row["customer_id"], row["transaction_id"])
            for each in tables
            for row in each.to_pylist()
        )


def name_of(number: int) -> str:
    """Return a customer's id, which is the name at the service too."""
    return f"customer-{number}"


def ended(process: subprocess.Popen[str]) -> dict[str, Any]:
    """Wait for a pull and return its report."""
    out, err = process.communicate(timeout=_PATIENCE_S)
    assert process.returncode == 0, err
    report: dict[str, Any] = json.loads(out)
    return report


@pytest.fixture(scope="module")
def box() -> Iterator[SandboxProcess]:
    """A sandbox in a child process."""
    with SandboxProcess() as process:
        yield process


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def place(request: pytest.FixtureRequest, box: SandboxProcess, tmp_path: Path) -> Place:
    """A place whose journal lies on each database."""
    box.reset("calm")
    url = "" if request.param == "sqlite" else str(request.getfixturevalue("schema_url"))
    return Place(tmp_path, box, url)


def expected(number: int) -> Counter[tuple[str, str]]:
    """Return every transaction of the sandbox's customers, once."""
    return Counter(
        (name_of(each), str(record["id"]))
        for each in range(number)
        for record in transactions_of(name_of(each))
    )


@pytest.mark.parametrize("number", [SHORT, pytest.param(200, marks=pytest.mark.long)])
def test_two_processes_pull_customers_through_faults(place: Place, number: int) -> None:
    """Every transaction is kept once, and each expired token is refreshed at most once."""
    place.consent(number)
    place.control("tokens", {"action": "expire"})
    place.control("faults", {"seed": 7, "rates": BEFORE_WORK})
    before = {name: dict(counts) for name, counts in place.counts().items()}
    pulls = [place.start("out-1"), place.start("out-2")]
    reports = [ended(each) for each in pulls]
    assert {report["state"] for report in reports} == {"completed"}
    assert place.typed() == expected(number)
    assert sum(report["changes"]["added"] for report in reports) == sum(place.typed().values())
    assert not any(report["changes"]["removed"] for report in reports)
    for name, counts in place.counts().items():
        assert counts.get("refreshes", 0) - before[name].get("refreshes", 0) == 1, name
        assert not counts.get("early_refreshes"), name
    third = ended(place.start("out-1"))
    assert third["customers"]["pulled"] == number
    assert third["changes"] == dict.fromkeys(third["changes"], 0)


def test_killed_pull_loses_nothing_and_its_lock_with_it(place: Place) -> None:
    """A pull that was killed while it refreshed tokens goes on, and nobody waits for the dead."""
    place.consent(60)
    place.control("tokens", {"action": "expire"})
    place.control("latency", {"kind": "fixed", "ms": 150})
    process = place.start("out-1")
    assert process.stderr is not None
    run_id = process.stderr.readline().strip()
    while sum(each.get("refreshes", 0) for each in place.counts().values()) < 20:
        time.sleep(0.02)
    process.kill()
    process.wait()
    process.communicate()
    place.control("latency", {"kind": "none"})
    report = ended(place.start("out-1", run=run_id))
    assert (report["run_id"], report["state"]) == (run_id, "completed")
    assert report["customers"]["pulled"] == 60
    assert place.typed() == expected(60)
