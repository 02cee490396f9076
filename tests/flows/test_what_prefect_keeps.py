"""Nothing personal and no key in the server's database, its storage, or any log of the engine."""

from __future__ import annotations

import csv
import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from coolname.data import config

from nightscreen.calling.asking import Asking
from nightscreen.config.parameters import ScreenBatch
from nightscreen.flows.screen_batch import screen_batch
from nightscreen.runs import finalize
from nightscreen.sandbox.batch import make_batch
from nightscreen.sandbox.process import SandboxProcess
from nightscreen.schemas.errors import InputError, UnexpectedFault
from nightscreen.tasks import engine_run
from tests.flows.conftest import API_KEY
from tests.flows.engine_in_a_test import Engine, until

pytestmark = [pytest.mark.engine, pytest.mark.long]

FAULTS = {
    "http_500": 0.04,
    "http_502": 0.04,
    "http_429": 0.04,
    "cut_before_charge": 0.04,
    "cut_after_charge": 0.04,
    "unreadable": 0.04,
}
OWN_WORDS = {
    word for part in config.values() if isinstance(part, dict) for word in part.get("words", ())
}
"""Of these the engine makes names for its runs: Precious, Patience and Rose among them."""
LEAST_LETTERS = 6  # shorter names may stand in the engine's own words


def make_people(path: Path, seed: int, rows: int = 60) -> None:
    """Write a batch, damaged rows and a value in a wrong column included."""
    make_batch(path, rows=rows, seed=seed, damage_pct=6)


def markers(path: Path) -> set[str]:
    """Return every value of a batch that says who somebody is."""
    found: set[str] = set()
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            for name in ("bvn", "account_number", "email", "phone", "consent_reference"):
                found.add((row[name] or "").strip().lower())
            found.add((row["phone"] or "").removeprefix("0").removeprefix("+234"))
            for name in ("first_name", "middle_name", "last_name"):
                given = (row[name] or "").strip().lower()
                if given in OWN_WORDS:
                    continue
                found.add(f'{given}"' if len(given) < LEAST_LETTERS else given)
    return {value for value in found if len(value) >= LEAST_LETTERS}


def stored_text(home: Path) -> Iterator[tuple[str, str]]:
    """Yield everything the engine holds: each table of the database, and each file as it is."""
    with sqlite3.connect(home / "prefect.db") as connection:
        tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        for (table,) in tables.fetchall():
            rows = connection.execute(f'SELECT * FROM "{table}"')  # noqa: S608 - its own names
            yield table, "\n".join(readable(value) for row in rows for value in row)
    for path in home.rglob("*"):
        if path.is_file():
            yield path.name, readable(path.read_bytes())


def readable(value: object) -> str:
    text = value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
    return text.lower()


def leaks(home: Path, wanted: set[str]) -> set[tuple[str, str]]:
    """Return where which marker was found, as it is or as JSON escapes it."""
    either = {text.lower(): {text.lower(), json.dumps(text.lower())[1:-1]} for text in wanted}
    return {
        (place, marker)
        for place, text in stored_text(home)
        for marker, forms in either.items()
        if any(form in text for form in forms)
    }


async def fail_in_every_way(
    folder: Path, people: Path, monkeypatch: pytest.MonkeyPatch, secrets: str
) -> None:
    """Run the flow so that it fails by input, in a check, and at a station."""

    async def break_asking(*_: object) -> Any:  # noqa: ANN401 - never returns
        raise RuntimeError(secrets)

    def break_writing(*_: object) -> Any:  # noqa: ANN401 - never returns
        raise ValueError(secrets) from KeyError(secrets)

    asked = {"input": str(people), "output": str(folder / "out")}
    with pytest.raises(InputError):
        await screen_batch(ScreenBatch(**{**asked, "input": str(folder / "missing.csv")}))
    with monkeypatch.context() as patch:
        patch.setattr(engine_run, "_task", engine_run._task.__wrapped__)  # none made before
        patch.setattr(engine_run, "RE_ENTRY_DELAYS_S", [0.0])
        patch.setattr(Asking, "ask", break_asking)
        with pytest.raises(UnexpectedFault):
            await screen_batch(ScreenBatch(**asked))
    with monkeypatch.context() as patch:
        patch.setattr(finalize, "write_rows", break_writing)
        with pytest.raises(UnexpectedFault):
            await screen_batch(ScreenBatch(**asked))


async def test_engine_holds_nobodys_data(
    engine: Engine, sandbox: SandboxProcess, at_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After runs with faults and runs that fail, no marker is found anywhere in the engine."""
    sandbox.post("/_sandbox/latency", {"kind": "none"})
    sandbox.post("/_sandbox/faults", {"rates": FAULTS, "retry_after_s": 0})
    people, others = at_home / "customers.csv", at_home / "others.csv"
    make_people(people, seed=501)
    make_people(others, seed=502)
    marked = markers(people) | markers(others) | {API_KEY}
    secrets = " ".join(sorted(marked))
    ran = engine.start({"input": str(people), "output": str(at_home / "out")})
    await fail_in_every_way(at_home / "failing", others, monkeypatch, secrets)
    assert engine.wait_for_end(ran)["state_type"] == "COMPLETED", engine.logs()
    until(lambda: leaks(engine.home, {"unexpected valueerror"}), "the logs of the last run")
    assert len(marked) > 400
    assert leaks(engine.home, {str(people).lower()}), "the search itself finds what is there"
    assert leaks(engine.home, marked) == set()
