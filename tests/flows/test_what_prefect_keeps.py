"""Nothing personal and no key in the server's database, its storage, or any log of the engine."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from nightscreen.calling.asking import Asking
from nightscreen.config.parameters import ScreenBatch
from nightscreen.flows.screen_batch import screen_batch
from nightscreen.runs import finalize
from nightscreen.sandbox.process import SandboxProcess
from nightscreen.schemas.errors import InputError, UnexpectedFault
from nightscreen.tasks import engine_run
from tests.flows.conftest import API_KEY
from tests.flows.engine_in_a_test import Engine, until
from tests.privacy.people import mark
from tests.privacy.search import Search

pytestmark = [pytest.mark.engine, pytest.mark.long]


FAULTS = (
    *("http_500", "http_502", "http_429"),
    *("cut_before_charge", "cut_after_charge", "unreadable"),
)


def leaks(home: Path, wanted: Iterable[str]) -> set[tuple[str, str]]:
    """Return where which value was found: in a table of the server's database, or in a file."""
    search = Search(wanted)
    return {(name, value) for name, held in stored(home) for value in search.found_in(held)}


def stored(home: Path) -> Iterator[tuple[str, bytes]]:
    """Yield everything the engine holds: each table of the database, and each file as it is."""
    with sqlite3.connect(home / "prefect.db") as connection:
        tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        for (table,) in tables.fetchall():
            rows = connection.execute(f'SELECT * FROM "{table}"')  # noqa: S608 - its own names
            yield table, b"\n".join(as_bytes(value) for row in rows for value in row)
    for path in home.rglob("*"):
        if path.is_file():
            yield path.name, path.read_bytes()


def as_bytes(value: object) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()


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
    sandbox.post("/_sandbox/faults", {"rates": dict.fromkeys(FAULTS, 0.04), "retry_after_s": 0})
    people = mark(at_home / "customers.csv", faulty=False)
    marked = {*people.values, API_KEY}
    ran = engine.start({"input": str(people.file), "output": str(at_home / "out")})
    secrets = " ".join(sorted(marked))
    await fail_in_every_way(at_home / "failing", people.file, monkeypatch, secrets)
    assert engine.wait_for_end(ran)["state_type"] == "COMPLETED", engine.logs()
    until(lambda: leaks(engine.home, ["Unexpected ValueError"]), "the logs of the last run")
    assert len(marked) > 400
    assert leaks(engine.home, [str(people.file)]), "the search itself finds what is there"
    assert leaks(engine.home, marked) == set()
