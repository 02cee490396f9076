"""No one-time password is left anywhere, and nobody's data but in the BVN table and quarantine.

Both stages run as a user runs them, on a server of the engine. Everything that is left is searched:
its database, the journal, what was said, outputs, file names.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from nightscreen.sandbox.process import SandboxProcess
from tests.cli.command import Ended, nightscreen
from tests.left_behind import content
from tests.operations.bvn_in_a_test import asked
from tests.privacy.conftest import Place
from tests.privacy.search import Search
from tests.screening import World
from tests.services import EngineServer

pytestmark = [pytest.mark.engine, pytest.mark.long]

CUSTOMERS = 30
PERMITTED = re.compile(r"out/[^/]+/(bvn/|quarantine\.csv)")


def run(place: Place, *arguments: str) -> Ended:
    ended = nightscreen("bvn", *arguments, cwd=place.folder, env=place.env, patience_s=240)
    said = place.folder / f"said-{arguments[0]}-{len(list(place.folder.iterdir()))}.txt"
    said.write_text(ended.out + ended.err, encoding="utf-8")
    return ended


def left(folder: Path) -> Iterator[tuple[str, bytes]]:
    """Yield name and content of everything that is left, tables also decoded."""
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        yield name, name.encode()
        if path.is_file():
            yield name, content(path)


def test_both_stages_leave_no_password(
    place: Place, sandbox: SandboxProcess, engine_server: EngineServer
) -> None:
    """Right, wrong, malformed and unknown ones: none is found, in clear or encoded."""
    rows = [
        asked(
            7000 + number, customer_id=f"MARKED-ID-{number:04d}", last_name=f"Zqxlast{number:03d}"
        )
        for number in range(CUSTOMERS)
    ]
    lender = World(place.folder.parent)
    first = run(place, "request", str(lender.write(rows, "who.csv")), "--json")
    assert first.status == 0, first.err
    assert json.loads(first.out)["states"] == {"awaiting_otp": CUSTOMERS}
    held = {each["bvn"]: each["otp"] for each in sandbox.get("/_sandbox/otps")["otps"]}
    given = {row["customer_id"]: held[row["bvn"]] for row in rows[:20]}
    given |= {row["customer_id"]: f"{860_003 + 7 * n}" for n, row in enumerate(rows[20:28])}
    given |= {rows[28]["customer_id"]: "86x1937", "MARKED-NOBODY-1": "861999"}
    typed = [{"customer_id": name, "otp": otp} for name, otp in given.items()]
    second = run(place, "confirm", str(lender.write(typed, "otps.csv")), "--json")
    assert second.status == 0, second.err
    report = json.loads(second.out)
    assert report["states"] == {"awaiting_otp": 2, "confirmed": 20, "wrong_otp": 8}
    assert report["rows"] == {"read": 30, "screened": 28, "quarantined": 2}
    assert report["cost"]["total"] == "400.00"
    assert list(engine_server.folder.rglob("*.db"))
    otps = re.compile(
        b"(?<![0-9.])(" + b"|".join(otp.encode() for otp in given.values()) + b")(?![0-9])"
    )
    people = Search(
        value
        for row in rows
        for value in (row["customer_id"], row["bvn"], row["phone"], row["last_name"])
    )
    found = {
        name: (otps.findall(held), people.found_in(held))
        for folder in (place.folder, engine_server.folder)
        for name, held in left(folder)
        if otps.search(held) or (not PERMITTED.match(name) and people.found_in(held))
    }
    assert found == {}
