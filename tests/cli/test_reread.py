"""`journal reread` reads kept bodies by the lender's table, asks nobody, and says what it read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nightscreen.client.response_rules import MANNERS
from tests.cli.conftest import Here
from tests.client.fakes import Canned
from tests.money.service_in_memory import Bureau

RULE = (
    '[[rules]]\nname = "another word"\noperations = ["ecosystem"]\nstatus = ["2xx"]\n'
    'body_status = ["ok"]\nbody = ["record"]\nverdict = "answered"\noutcome = "found"\n\n'
)


def test_kept_bodies_are_read_by_the_table_under_home(
    tmp_path: Path, here: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two in three stay, since the table knows one form only; a mistake is named with its line."""
    desk = Bureau(tmp_path, rows=30)
    odd: list[str] = []

    def rewrite(operation: str, identity: str, document: dict[str, Any]) -> Canned | None:
        if operation != "ecosystem":
            return None
        odd.append(identity)
        readable = len(odd) % 3 == 0
        data = document["data"] if readable else "see the portal"
        return Canned(200, {**document, "status": "ok", "data": data}) if len(odd) < 9 else None

    desk.service.rewrite = rewrite
    desk.night(checks=["ecosystem"])
    monkeypatch.setenv("NIGHTSCREEN_HOME", str(tmp_path / "home"))
    before = here("journal", "reread", "--json")
    assert (before.status, before.document["read"]) == (0, 0)
    assert before.document["table"] is None
    table = tmp_path / "home" / "manners.toml"
    table.write_text(RULE.replace('"found"', '"seen"') + MANNERS.read_text("utf-8"), "utf-8")
    wrong = here("journal", "reread")
    assert wrong.status == 2
    assert "manners.toml, line 8" in wrong.err
    table.write_text(RULE + MANNERS.read_text("utf-8"), "utf-8")
    after = here("journal", "reread", "--json").document
    assert after["checks"]["ecosystem"] == {
        "kept": 8,
        "read": 2,
        "left": 6,
        "left_cost": "150.00",
        "answers": {"found": 2},
    }
    assert (after["kept"], after["read"], after["left"]) == (8, 2, 6)
    assert json.loads(json.dumps(after)) == after
    words = here("journal", "reread")
    assert words.status == 0
    assert "6 saved" in words.out
    assert here("journal", "verify").status == 0
