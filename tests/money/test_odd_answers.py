"""Answers that are paid for and cannot be read: settled once, kept, not bought again by itself."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from nightscreen.calling.rereading import reread
from nightscreen.client.prices import PRICES
from nightscreen.client.response_rules import MANNERS, load_response_rules
from nightscreen.journal import journal_of
from nightscreen.journal.keyset import rotate_key
from nightscreen.journal.verify import verify_journal
from nightscreen.schemas.checks import Outcome
from nightscreen.schemas.clock import DAY_MICROS
from nightscreen.schemas.errors import SettingsError
from tests.client.fakes import Canned
from tests.kill.drive import settings_for
from tests.money.service_in_memory import Bureau

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from nightscreen.journal import Journal

ROWS = 60
IN_FLIGHT = 4


def bureau(below: Path, **settings: Any) -> Bureau:  # noqa: ANN401 - settings of any kind
    """Return a lender's desk with its batch."""
    return Bureau(below, rows=ROWS, settings=settings)


def rewritten(
    desk: Bureau, operation: str, body: Callable[[dict[str, Any]], object], *, every: int = 1
) -> set[str]:
    """Let every so many charged answers of an operation come in another form; return about whom."""
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
    """Say nothing but what it cost."""
    return {**document, "data": "see the portal"}


def rows_of(desk: Bureau, report: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the enriched rows of a run."""
    folder = desk.below / "out" / report["run_id"] / "enriched"
    rows: list[dict[str, Any]] = ds.dataset(folder).to_table().to_pylist()
    return rows


def journal_at(desk: Bureau) -> Journal:
    """Open the journal of a desk."""
    settings = settings_for(desk.below / "home", "http://127.0.0.1:9", "made-up-key")
    return journal_of(settings, clock=desk.loop.micros)


@dataclass(frozen=True)
class OddNight:
    """A night with odd answers of each check.

    Attributes:
        unread: BVNs of which the ecosystem says nothing but what it cost.
        stray: accounts whose names have a byte of another encoding.
        several: BVNs with two karma records in one answer.
    """

    desk: Bureau
    report: dict[str, Any]
    unread: set[str]
    stray: set[str]
    several: set[str]


@pytest.fixture(scope="module")
def odd_night(tmp_path_factory: pytest.TempPathFactory) -> OddNight:
    """Spend the night that tests of single answers look at."""
    desk = bureau(tmp_path_factory.mktemp("odd"))

    def stray(document: dict[str, Any]) -> bytes:
        document["data"]["account_name"] += " JOSx"
        return json.dumps(document).encode().replace(b"JOSx", b"JOS\xc9")

    def several(document: dict[str, Any]) -> dict[str, Any]:
        one = document["data"]
        other = {**one, "amount_in_contention": "999999999.50", "reason": "another"}
        return {**document, "data": [one, other]}

    names = rewritten(desk, "bank_account", stray, every=3)
    listings = rewritten(desk, "karma", several)
    unread = rewritten(desk, "ecosystem", without_record, every=3)
    return OddNight(desk, desk.night().report, unread, names, listings)


def settled_at_cost(desk: Bureau, report: dict[str, Any], operation: str, odd: set[str]) -> None:
    """Hold that charged answers without a record are paid for once and named."""
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
    calls = pq.read_table(desk.below / "out" / report["run_id"] / "calls.parquet").to_pylist()
    states = Counter(call["state"] for call in calls)
    assert states["unreadable"] == len(odd)
    assert {call["outcome"] for call in calls if call["state"] == "unreadable"} == {"unreadable"}


def test_a_charged_answer_that_cannot_be_read_is_settled_at_its_cost(odd_night: OddNight) -> None:
    """It is paid for once and named; nothing is in doubt, nothing is sent again."""
    settled_at_cost(odd_night.desk, odd_night.report, "ecosystem", odd_night.unread)


def test_the_bodies_are_kept_as_they_came(odd_night: OddNight) -> None:
    """What was paid for lies sealed in the journal, to be read again."""
    with journal_at(odd_night.desk) as journal:
        subjects = {journal.pseudonyms.subject("bvn", bvn): bvn for bvn in odd_night.unread}
        found = journal.answers.latest("ecosystem", list(subjects))
        assert len(found) == len(odd_night.unread)
        for answer in found.values():
            assert answer.outcome == Outcome.UNREADABLE
            assert b"see the portal" not in answer.sealed
            assert json.loads(journal.answers.body("ecosystem", answer))["data"] == "see the portal"


def test_a_stray_byte_in_a_name_is_just_a_name(odd_night: OddNight) -> None:
    """Text in another encoding is read with that letter replaced, and paid for once."""
    part = odd_night.report["checks"]["bank_account"]
    assert (part["unreadable"], part["in_doubt"]) == (0, 0)
    names = [row["bank_account_name"] or "" for row in rows_of(odd_night.desk, odd_night.report)]
    with_letter = sum("JOS\N{REPLACEMENT CHARACTER}" in name for name in names)
    assert with_letter >= len(odd_night.stray) > 0


def test_a_list_of_karma_records_is_several_listings(odd_night: OddNight) -> None:
    """All are listed, the amount is the highest, and the call is paid for once."""
    report, odd = odd_night.report, odd_night.several
    assert report["checks"]["karma"]["paid"] == len(odd) > 0
    rows = rows_of(odd_night.desk, report)
    listed = [row for row in rows if row["karma_status"] == "listed"]
    assert len(listed) >= len(odd)
    for row in listed:
        assert len(row["karma_listings"]) == 2
        assert str(row["karma_amount_in_contention"]) == "999999999.50"


def test_it_is_asked_again_once_the_shortest_age_has_passed(tmp_path: Path) -> None:
    """Not the next night, nor by a resume: the answer at hand is counted as unreadable."""
    desk = bureau(tmp_path)
    odd = rewritten(desk, "bank_account", without_record, every=3)
    first = desk.night().report
    charged = desk.service.charged
    second = desk.night().report
    assert desk.service.charged == charged
    part = second["checks"]["bank_account"]
    assert (part["unreadable"], part["cost"]) == (len(odd), "0.00")
    resumed = desk.night(run=first["run_id"]).report
    assert desk.service.charged == charged
    assert resumed["checks"]["bank_account"]["unreadable"] == len(odd)
    desk.loop.now_s += 30 * DAY_MICROS / 1_000_000
    desk.service.rewrite = lambda *_: None
    start = len(desk.service.ledger)
    later = desk.night(checks=["bank_account"]).report
    part = later["checks"]["bank_account"]
    assert part["unreadable"] == 0
    assert part["paid"] >= len(odd)
    assert odd <= {each[1] for each in desk.service.ledger[start:]}


def test_ten_in_a_row_stop_the_check_and_no_other(tmp_path: Path) -> None:
    """What more is paid for is of no use until it can be read. A resume tries with one."""
    desk = bureau(tmp_path)
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
    """A success envelope with a record of the one asked about is a listing, whatever its status."""
    desk = bureau(tmp_path)
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


def test_test_mode_costs_nothing_whatever_the_sample_says(tmp_path: Path) -> None:
    """The cost of a mock is the sample's: not one naira is shown as spent."""
    desk = bureau(tmp_path)
    mock = {"status": "success", "data": {"lenders": 2}, "meta": {"cost": 25, "balance": 900}}

    def sample(*_: object) -> Canned:
        return Canned(200, {**mock, "mock-response": "sample"})

    desk.service.before = sample
    report = desk.night().report
    assert report["state"] == "test_mode"
    assert report["cost"]["total"] == "0.00"
    assert report["cost"]["in_doubt_exposure"] == "0.00"
    assert {part["cost"] for part in report["checks"].values()} == {"0.00"}
    with journal_at(desk) as journal:
        assert journal.money.of_run(report["run_id"]).bound_micro == 0
        assert journal.money.prices() == {}
    calls = pq.read_table(tmp_path / "out" / report["run_id"] / "calls.parquet").to_pylist()
    assert {call["cost"] for call in calls if call["state"] == "test_mode"} == {0}


# --- kept bodies read again ---

TOLERANT = (
    '[[rules]]\nname = "ecosystem: another word for success"\noperations = ["ecosystem"]\n'
    'status = ["2xx"]\nbody_status = ["ok"]\nbody = ["record"]\n'
    'verdict = "answered"\noutcome = "found"\n\n'
)


def another_word(document: dict[str, Any]) -> dict[str, Any]:
    """Say success in another word."""
    return {**document, "status": "ok"}


def test_kept_bodies_are_read_again_for_nothing(tmp_path: Path) -> None:
    """Once the table knows the new word the answers count from their own time; none is bought."""
    desk = bureau(tmp_path)
    odd = rewritten(desk, "ecosystem", another_word, every=3)
    first = desk.night().report
    assert first["checks"]["ecosystem"]["unreadable"] == len(odd)
    asked = len(desk.service.ledger)
    table = desk.below / "home" / "manners.toml"
    with journal_at(desk) as journal:
        assert reread(journal, load_response_rules())["ecosystem"].read == 0
        table.write_text(TOLERANT + MANNERS.read_text("utf-8"), "utf-8")
        rotate_key(journal)
        found = reread(journal, load_response_rules(table))
        assert found["ecosystem"].answers == {"found": len(odd)}
        assert verify_journal(journal) == []
        assert reread(journal, load_response_rules(table)) == {}
    desk.loop.now_s += 3600
    second = desk.night().report
    part = second["checks"]["ecosystem"]
    assert (part["unreadable"], part["reused"], part["cost"]) == (0, part["distinct"], "0.00")
    assert len(desk.service.ledger) == asked
    resumed = desk.night(run=first["run_id"]).report
    assert resumed["checks"]["ecosystem"]["unreadable"] == 0
    assert resumed["cost"]["total"] == first["cost"]["total"]
    assert len(desk.service.ledger) == asked
    rows = rows_of(desk, resumed)
    assert {row["ecosystem_status"] for row in rows} <= {"found", "not_found", "refused"}


def test_kept_bodies_of_calls_in_doubt_are_read_again_too(tmp_path: Path) -> None:
    """No cost was stated, so that it was in doubt; what the corrected table knows is an answer."""
    desk = bureau(tmp_path)

    def without_bill(document: dict[str, Any]) -> dict[str, Any]:
        return {"status": "ok", "data": document["data"]}

    odd = rewritten(desk, "ecosystem", without_bill, every=12)
    first = desk.night().report
    assert first["checks"]["ecosystem"]["in_doubt"] == len(odd)
    asked = len(desk.service.ledger)
    table = desk.below / "home" / "manners.toml"
    table.write_text(TOLERANT + MANNERS.read_text("utf-8"), "utf-8")
    with journal_at(desk) as journal:
        rotate_key(journal)
        assert reread(journal, load_response_rules())["ecosystem"].read == 0
        found = reread(journal, load_response_rules(table))["ecosystem"]
        assert (found.kept, found.read) == (2 * len(odd), 2 * len(odd))
        assert verify_journal(journal) == []
    desk.loop.now_s += 3600
    report = desk.night().report
    part = report["checks"]["ecosystem"]
    assert (part["in_doubt"], part["reused"]) == (0, part["distinct"])
    assert len(desk.service.ledger) == asked


def test_an_answer_about_somebody_else_is_not_read_as_evidence(tmp_path: Path) -> None:
    """Whom an answer was asked about is kept with it, so that reading again sees a mix-up."""
    desk = bureau(tmp_path)

    def of_another(document: dict[str, Any]) -> dict[str, Any]:
        return {**document, "status": "ok", "data": {**document["data"], "bvn": "22111111111"}}

    odd = rewritten(desk, "ecosystem", of_another, every=3)
    desk.night()
    table = desk.below / "manners.toml"
    table.write_text(TOLERANT + MANNERS.read_text("utf-8"), "utf-8")
    with journal_at(desk) as journal:
        found = reread(journal, load_response_rules(table))
    assert (found["ecosystem"].kept, found["ecosystem"].read) == (len(odd), 0)


def test_a_table_under_home_holds_for_the_next_run(tmp_path: Path) -> None:
    """With a corrected table nothing is unreadable in the first place."""
    desk = bureau(tmp_path)
    rewritten(desk, "ecosystem", another_word, every=3)
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    (home / "manners.toml").write_text(TOLERANT + MANNERS.read_text("utf-8"), "utf-8")
    (home / "prices.toml").write_text(PRICES.read_text("utf-8") + 'ecosystem = "40"\n', "utf-8")
    driven = desk.night()
    assert driven.report["checks"]["ecosystem"]["unreadable"] == 0
    manifest = json.loads(
        (tmp_path / "out" / driven.report["run_id"] / "manifest.json").read_text("utf-8")
    )
    assert {name: each["from"] for name, each in manifest["tables"].items()} == {
        "manners": "lender",
        "prices": "lender",
    }
    assert driven.run.quote is not None
    prices = {each.check: each.price_micro for each in driven.run.quote.lines}
    assert prices["ecosystem"] == 40_000_000


def test_a_mistake_in_a_table_is_told_before_anything_is_spent(tmp_path: Path) -> None:
    """File and line are named, whichever setting leads there."""
    desk = bureau(tmp_path)
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    wrong = tmp_path / "mine.toml"
    wrong.write_text(TOLERANT.replace('"found"', '"lost"') + MANNERS.read_text("utf-8"), "utf-8")
    desk.settings["manners_file"] = wrong
    with pytest.raises(SettingsError, match=r"mine\.toml, line 8: rules\.0\.outcome"):
        desk.night()
    assert desk.service.ledger == []
