"""Answers that are paid for but unreadable: settled once, stored, not bought again by default."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from nightscreen.calling.rereading import reread
from nightscreen.client.prices import PRICES
from nightscreen.client.response_rules import MANNERS, load_response_rules
from nightscreen.journal import Journal, journal_of
from nightscreen.journal.keyset import rotate_key
from nightscreen.journal.verify import verify_journal
from nightscreen.schemas.checks import Outcome
from nightscreen.schemas.errors import SettingsError
from tests.client.fakes import Canned
from tests.money.service_in_memory import Bureau
from tests.screening import Steered

ROWS = 45
IN_FLIGHT = 4


def rewritten(
    desk: Bureau, operation: str, body: Callable[[dict[str, Any]], object], *, every: int = 1
) -> set[str]:
    """Rewrite the body of every nth charged answer of an operation; return the identities."""
    seen: list[str] = []
    odd: set[str] = set()
    others = desk.service.rewrite

    def rewrite(asked: str, identity: str, document: dict[str, Any]) -> Canned | None:
        if asked != operation:
            return others(asked, identity, document)
        if identity not in seen:
            seen.append(identity)
        if seen.index(identity) % every:
            return None
        odd.add(identity)
        written = body(document)
        return Canned(200, written if isinstance(written, bytes) else json.dumps(written).encode())

    desk.service.rewrite = rewrite
    return odd


def without_record(document: dict[str, Any]) -> dict[str, Any]:
    return {**document, "data": "see the portal"}


def rows_of(desk: Bureau, report: dict[str, Any]) -> list[dict[str, Any]]:
    folder = desk.folder / "out" / report["run_id"] / "enriched"
    rows: list[dict[str, Any]] = ds.dataset(folder).to_table().to_pylist()
    return rows


def journal_at(desk: Bureau) -> Journal:
    return journal_of(desk.read_settings(), clock=desk.loop.micros)


def test_a_charged_answer_that_cannot_be_read_is_settled_at_its_cost(tmp_path: Path) -> None:
    """It is paid for once and listed; nothing is in doubt or sent again, and its body is stored."""
    desk, operation = Bureau(tmp_path, rows=ROWS), "ecosystem"
    odd = rewritten(desk, operation, without_record, every=3)
    report = desk.night().report
    assert report["state"] == "completed"
    assert odd
    part = report["checks"][operation]
    assert (part["unreadable"], part["in_doubt"], part["retries"]) == (len(odd), 0, 0)
    assert part["troubles"] == {"unreadable": len(odd)}
    assert float(report["cost"]["total"]) == desk.service.charged
    assert report["cost"]["in_doubt_exposure"] == "0.00"
    assert max(Counter(entry[:2] for entry in desk.service.ledger).values()) == 1
    assert report["balance"]["exact"] is True
    rows = rows_of(desk, report)
    unread = [row for row in rows if row[f"{operation}_status"] == "unreadable"]
    assert len(unread) >= len(odd)
    assert {row[f"{operation}_source"] for row in unread} <= {None, "asked", "shared"}
    assert "approve" not in {row["decision"] for row in unread}
    assert sum(row["cost"] for row in rows) == desk.service.charged
    calls = pq.read_table(desk.folder / "out" / report["run_id"] / "calls.parquet").to_pylist()
    states = Counter(call["state"] for call in calls)
    assert states["unreadable"] == len(odd)
    assert {call["outcome"] for call in calls if call["state"] == "unreadable"} == {"unreadable"}
    with journal_at(desk) as journal:
        subjects = {journal.pseudonyms.subject("bvn", bvn): bvn for bvn in odd}
        found = journal.answers.latest("ecosystem", list(subjects))
        assert len(found) == len(odd)
        for answer in found.values():
            assert answer.outcome == Outcome.UNREADABLE
            assert b"see the portal" not in answer.sealed
            assert json.loads(journal.answers.body("ecosystem", answer))["data"] == "see the portal"


def test_ten_in_a_row_stop_the_check_and_no_other(tmp_path: Path) -> None:
    """Further answers would be paid for and useless. A resume tries with one."""
    desk = Bureau(tmp_path, rows=ROWS)
    rewritten(desk, "ecosystem", without_record)
    report = desk.night().report
    assert (report["state"], report["stop_reason"]) == ("stopped", "failures")
    part = report["checks"]["ecosystem"]
    assert 10 <= part["unreadable"] < 10 + IN_FLIGHT
    assert part["pending"] > 0
    assert report["checks"]["karma"]["pending"] == 0
    assert any("journal reread" in notice for notice in report["notices"])
    again = desk.night(run=report["run_id"]).report
    assert (again["state"], again["stop_reason"]) == ("stopped", "failures")
    assert 0 < again["checks"]["ecosystem"]["unreadable"] - part["unreadable"] <= IN_FLIGHT
    desk.service.rewrite = lambda *_: None
    whole = desk.night(run=report["run_id"]).report
    assert whole["state"] == "completed"


def test_a_karma_record_under_404_is_never_clear(tmp_path: Path) -> None:
    """A success envelope with a record of the right person is a listing, whatever its status."""
    desk = Bureau(tmp_path, rows=ROWS)
    listed: set[str] = set()

    def under_404(operation: str, identity: str, document: dict[str, Any]) -> Canned | None:
        if operation != "karma":
            return None
        listed.add(identity)
        return Canned(404, document)

    desk.service.rewrite = under_404
    report = desk.night().report
    assert report["state"] == "completed"
    assert report["checks"]["karma"]["paid"] == len(listed) > 0
    assert report["checks"]["karma"]["answers"]["listed"] >= len(listed)
    assert float(report["cost"]["total"]) == desk.service.charged


# --- stored bodies read again ---

TOLERANT = (
    '[[rules]]\nname = "ecosystem: another word for success"\noperations = ["ecosystem"]\n'
    'status = ["2xx"]\nbody_status = ["ok"]\nbody = ["record"]\n'
    'verdict = "answered"\noutcome = "found"\n\n'
)


def another_word(document: dict[str, Any]) -> dict[str, Any]:
    return {**document, "status": "ok"}


def test_kept_bodies_are_read_again_for_nothing(tmp_path: Path) -> None:
    """Once the response rules know the new status, the answers count from their own time.

    Each is kept with the identity it was asked for: one about somebody else is no evidence.
    """
    desk, mixed_up = Bureau(tmp_path, rows=ROWS), list[object]()

    def odd_word(document: dict[str, Any]) -> dict[str, Any]:
        if not mixed_up:
            document = {**document, "data": {**document["data"], "bvn": "22111111111"}}
            mixed_up.append(document["data"])
        return another_word(document)

    odd = rewritten(desk, "ecosystem", odd_word, every=3)
    first = desk.night().report
    assert first["checks"]["ecosystem"]["unreadable"] == len(odd)
    asked = len(desk.service.ledger)
    table = desk.folder / "home" / "manners.toml"
    with journal_at(desk) as journal:
        assert reread(journal, load_response_rules())["ecosystem"].read == 0
        table.write_text(TOLERANT + MANNERS.read_text("utf-8"), "utf-8")
        rotate_key(journal)
        found = reread(journal, load_response_rules(table))["ecosystem"]
        assert (found.answers, found.kept) == ({"found": len(odd) - 1}, len(odd))
        assert verify_journal(journal) == []
        assert reread(journal, load_response_rules(table))["ecosystem"].read == 0
    desk.loop.now_s += 3600
    second = desk.night().report
    part = second["checks"]["ecosystem"]
    assert (part["unreadable"], part["reused"], part["cost"]) == (1, part["distinct"] - 1, "0.00")
    resumed = desk.night(run=first["run_id"]).report
    assert resumed["checks"]["ecosystem"]["unreadable"] == 1
    assert resumed["cost"]["total"] == first["cost"]["total"]
    assert len(desk.service.ledger) == asked
    statuses = Counter(row["ecosystem_status"] for row in rows_of(desk, resumed))
    assert statuses.keys() == {"found", "not_found", "refused", "unreadable"}
    assert statuses["unreadable"] == 1


def test_a_table_under_home_holds_for_the_next_run(tmp_path: Path) -> None:
    """With corrected response rules all answers are readable at once."""
    desk = Bureau(tmp_path, rows=ROWS)
    rewritten(desk, "ecosystem", another_word, every=3)
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    (home / "manners.toml").write_text(TOLERANT + MANNERS.read_text("utf-8"), "utf-8")
    (home / "prices.toml").write_text(PRICES.read_text("utf-8") + 'ecosystem = "40"\n', "utf-8")
    steered = Steered()
    night = desk.screen_by(steered, input=desk.batch())
    assert night.report["checks"]["ecosystem"]["unreadable"] == 0
    manifest = json.loads((night.folder / "manifest.json").read_text("utf-8"))
    assert {name: each["from"] for name, each in manifest["tables"].items()} == {
        "manners": "lender",
        "prices": "lender",
    }
    assert steered.run.quote is not None
    prices = {each.check: each.price_micro for each in steered.run.quote.lines}
    assert prices["ecosystem"] == 40_000_000


def test_a_mistake_in_a_table_is_told_before_anything_is_spent(tmp_path: Path) -> None:
    """The error has file and line, whichever setting names the file."""
    desk = Bureau(tmp_path, rows=ROWS)
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    wrong = tmp_path / "mine.toml"
    wrong.write_text(TOLERANT.replace('"found"', '"lost"') + MANNERS.read_text("utf-8"), "utf-8")
    desk.settings["manners_file"] = wrong
    with pytest.raises(SettingsError, match=r"mine\.toml, line 8: rules\.0\.outcome"):
        desk.night()
    assert desk.service.ledger == []
