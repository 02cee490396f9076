"""The line as a whole, night by night, in one process with the sandbox."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from decimal import Decimal
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from nightscreen.config.settings import overridden
from nightscreen.journal.schema import PASSING_TABLES
from nightscreen.sandbox.people import account_of, ecosystem_of, karma_of
from nightscreen.schemas.clock import system_clock, to_instant
from nightscreen.schemas.errors import InputError, SettingsError
from tests.kill.truth import wrong_statuses
from tests.nights.standard import StandardNight
from tests.screening import CONSENT, World, csv_rows, customer, days_ago

DAY = 24 * 3600 * 1_000_000


def _people(count: int, **changes: str) -> list[dict[str, str]]:
    return [customer(number, **changes) for number in range(1, count + 1)]


@pytest.mark.parametrize("name", ["plain", "capped", "two-workers"])
def test_every_row_has_the_status_the_sandbox_knows(
    standard_night: StandardNight, name: str
) -> None:
    for row in standard_night(name).night.rows:
        listed = "listed" if karma_of(row["bvn"]) is not None else "clear"
        assert row["karma_status"] in {listed, "pending"}
        history = ecosystem_of(row["bvn"])
        if row["ecosystem_source"]:
            assert row["ecosystem_status"] == ("found" if history else "not_found")
            assert row["ecosystem_loans"] == (history and history["loans"])
        account = account_of(row["bank_code"], row["account_number"])
        if row["bank_account_source"]:
            assert (row["bank_account_status"] == "not_found") == (account is None)
            assert row["bank_account_name"] == (account and account["account_name"])


def test_second_night_pays_nothing(
    standard_night: StandardNight,
) -> None:
    earlier, spent = standard_night("second"), standard_night("without-consent")
    night = spent.night
    assert spent.world.ends[1] == spent.world.ends[2]
    assert night.report["cost"]["total"] == "0.00"
    assert set(night.column("karma_source")) == {"reused"}
    answers = night.report["checks"]["karma"]
    assert answers["reused"] == answers["distinct"]
    assert night.column("karma_status") == earlier.night.column("karma_status")
    assert night.report["balance"]["closing"] is None
    known = night.report["balance"]["last_known"]
    assert known["balance"] == earlier.night.report["balance"]["closing"]
    assert known["nights_left"] > 0


def test_a_lookup_needed_twice_is_made_once(standard_night: StandardNight) -> None:
    """Two customers with one BVN and one account share their lookups; one row bears the cost."""
    spent = standard_night("plain")
    rows = {row["customer_id"]: row for row in spent.night.rows}
    twin = rows["TWIN"]
    (other,) = (
        row
        for row in rows.values()
        if row["bvn"] == twin["bvn"] and "TWIN" not in row["customer_id"]
    )
    asked = [call["identity"] for call in spent.world.calls("karma")]
    assert asked.count(twin["bvn"]) == 1
    assert (other["karma_source"], twin["karma_source"]) == ("asked", "shared")
    assert twin["cost"] == 0
    karma = spent.night.report["checks"]["karma"]
    assert karma["lookups"] == karma["distinct"] + 2


CONSENTS = [
    ({}, False),
    ({"consented_at": CONSENT["consented_at"]}, False),
    ({"consent_reference": "CNS"}, False),
    (CONSENT, True),
    ({**CONSENT, "consented_at": "2099-01-01"}, False),
    ({**CONSENT, "consent_expires_at": days_ago(30)}, False),
    ({**CONSENT, "consent_withdrawn_at": days_ago(30)}, False),
    ({**CONSENT, "consent_withdrawn_at": "no idea"}, False),
]


REFERENCES = [
    "CONSENT/{bvn}",
    "Ada.Person@Example.com {phone}",
    "CNS {first_name} {spaced}",
    "no 0803 123 4567",
]
"""References that tell who they are about: by BVN, by another case, by blanks, by name."""


def test_no_row_without_consent_reaches_the_ecosystem(world: World) -> None:
    """Only a reference, given in the past, not expired and not withdrawn, lets a call out.

    One that names the person is carried neither into the call sheet nor into the journal.
    """
    rows = [customer(11 + number, **consent) for number, (consent, _) in enumerate(CONSENTS)]
    for number, reference in enumerate(REFERENCES):
        row = customer(31 + number, phone="08031234567")
        bvn = row["bvn"]
        spaced = f"{bvn[:2]} {bvn[2:5]} {bvn[5:8]} {bvn[8:]}"
        rows.append({**row, **CONSENT, "consent_reference": reference.format(**row, spaced=spaced)})
    night = world.screen(rows)
    asked = {call["identity"] for call in world.calls("ecosystem")}
    for row, (_, valid) in zip(night.rows, CONSENTS, strict=False):
        assert (row["bvn"] in asked) == valid
        assert (row["ecosystem_status"] == "refused") == (not valid)
    calls = pq.read_table(night.folder / "calls.parquet").to_pylist()
    kept = [call["consent_reference"] for call in calls if call["check"] == "ecosystem"]
    assert kept.count(CONSENT["consent_reference"]) == 1
    assert sum(each.startswith("(masked") for each in kept) == len(REFERENCES) == len(kept) - 1


def test_an_answer_at_hand_is_not_shown_without_consent(standard_night: StandardNight) -> None:
    """Neither to a customer who took it back, nor by sharing a customer's who gave it."""
    nights = [standard_night(name).night for name in ("plain", "second", "without-consent")]
    shown = [{row["customer_id"]: row for row in night.rows} for night in nights]
    at_hand = {name for name, row in shown[1].items() if row["ecosystem_status"] == "found"}
    taken_back = [row for name, row in shown[2].items() if row["ecosystem_status"] == "refused"]
    assert at_hand & {row["customer_id"] for row in taken_back}
    assert shown[0]["TWIN"]["ecosystem_source"] == "shared"
    assert shown[0]["SILENT TWIN"]["ecosystem_status"] == "refused"
    for row in (*taken_back, shown[0]["SILENT TWIN"]):
        told = [name for name in row if name.startswith("ecosystem_") and row[name] is not None]
        assert told == ["ecosystem_status"]


def test_answers_are_asked_again_once_they_are_old(tmp_path: Path) -> None:
    """A karma answer of the portfolio is fresh for six days and some hours, not for eight.

    A limit of its own makes a run ask again what the settings would still reuse, and no more.
    """
    now = system_clock()
    clock = {"now": now}
    world = World(tmp_path, clock=lambda: clock["now"])
    rows = [*_people(5), customer(20), customer(21)]
    clear = sum(karma_of(row["bvn"]) is None for row in rows)

    def asked(day: int, **options: list[str]) -> int:
        clock["now"] = now + day * DAY
        before = len(world.calls("karma"))
        world.screen(rows, checks=["karma"], **options)
        return len(world.calls("karma")) - before

    assert asked(0) == len(rows)
    assert asked(6, freshness=["karma.listed=60"]) == 0
    assert asked(8) == clear
    assert asked(10, freshness=["karma.clear=1,karma.listed=P1D"]) == len(rows)


def test_the_cap_stops_the_run_and_what_was_reached_is_what_mattered_most(
    standard_night: StandardNight,
) -> None:
    """Nothing more would have fitted under it, and no greater exposure was left out."""
    spent = standard_night("capped")
    report = spent.night.report
    assert (report["state"], report["stop_reason"]) == ("stopped", "budget")
    left = Decimal(report["cost"]["cap"]) - Decimal(spent.world.charged)
    assert 0 <= left < 25
    reached, missed = (
        [row["exposure"] for row in spent.night.rows if (row["karma_status"] == "pending") == waits]
        for waits in (False, True)
    )
    # one call opens and one closes the books: they may lie anywhere in the funded part
    assert sorted(reached)[1] >= sorted(missed)[-2]


@pytest.mark.parametrize("name", ["dirty", "capped"])
def test_the_books_of_the_report_always_add_up(standard_night: StandardNight, name: str) -> None:
    """As the laws say after each night; what is in quarantine stands nowhere in the problems."""
    night = standard_night(name).night
    problems = (night.folder / "problems.csv").read_text("utf-8")
    refused = [cell for row in csv_rows(night.folder / "quarantine.csv") for cell in row.values()]
    numbers = [cell for cell in refused if cell.isdigit() and len(cell) >= 10]
    assert not [cell for cell in numbers if cell in problems]
    counts = night.report["rows"]
    assert counts["read"] == counts["screened"] + counts["quarantined"]


@pytest.mark.parametrize("shape", ["mock-response", "empty"])
def test_test_mode_is_noticed_at_the_first_answers(
    world: World, standard_night: StandardNight, shape: str
) -> None:
    """Two lookups agree, nothing they said counts, no manifest is written."""
    if shape == "empty":
        world.sandbox.test_mode = shape
        night = world.screen(_people(10, **CONSENT))
    else:
        world, night = standard_night("test-mode").world, standard_night("test-mode").night
    assert len(world.calls()) == 2
    assert night.report["state"] == "test_mode"
    assert not night.report["publishable"]
    assert not (night.folder / "manifest.json").exists()
    assert set(night.column("karma_status")) == {"test_mode"}
    assert set(night.column("decision")) == {"undecided"}


def test_no_call_goes_out_once_its_consent_has_ended(tmp_path: Path) -> None:
    """Consent is looked at again just before a call: a long night outlives some of them."""
    opened = system_clock()
    clock = {"now": opened}

    def later() -> int:
        clock["now"] += 20_000_000
        return clock["now"]

    world = World(tmp_path, clock=later)
    ends = to_instant(opened + 30 * 60 * 1_000_000).isoformat()
    rows = _people(60, **CONSENT, consent_expires_at=ends)
    longer = to_instant(opened + 10 * DAY).isoformat()
    twin = {**rows[-1], "customer_id": "C-twin", "consent_expires_at": longer}
    night = world.screen([*rows, twin], checks=["ecosystem"])
    sent = len(world.calls("ecosystem"))
    assert 0 < sent < 60
    part, statuses = night.report["checks"]["ecosystem"], night.column("ecosystem_status")
    assert night.report["state"] == "completed"
    assert statuses[-1] == statuses[-2] != "refused"  # asked in the name of who consented longest
    assert statuses.count("refused") == part["rows_refused"] == 60 - sent
    assert (part["pending"], part["distinct"], part["lookups"]) == (0, sent, sent + 1)


@pytest.mark.parametrize("name", ["plain", "capped", "killed", "two-workers"])
def test_nothing_of_the_lookups_outlives_their_run(
    standard_night: StandardNight, name: str
) -> None:
    """However it ends, no identity that was sealed for the asking is left in the journal."""
    file = standard_night(name).world.folder / "home" / "journal.sqlite"
    with closing(sqlite3.connect(f"file:{file}?immutable=1", uri=True)) as journal:
        for table in PASSING_TABLES:
            (held,) = journal.execute(f"SELECT count(*) FROM {table.name}").fetchone()  # noqa: S608 - names of our own tables
            assert held == 0, table.name


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (["karma.clear"], "freshness"),
        (["karma.nonsense=1"], "freshness"),
        (["nothing.clear=1"], "freshness"),
        (["karma=1"], "freshness"),
        (["karma.clear=1", "karma.clear=7"], r"karma\.clear is given twice"),
        (["karma.clear=1,karma.clear=2"], r"karma\.clear is given twice"),
    ],
)
def test_a_freshness_that_cannot_be_read_is_told(given: list[str], told: str) -> None:
    """The mistake names what there is; of two limits for one outcome neither wins silently."""
    with pytest.raises(SettingsError, match=told):
        overridden({}, given)


def test_a_run_belongs_to_its_input_and_rows_fed_back_to_its_batch(world: World) -> None:
    """A changed file is reported by its digest; who is not among rows fed back is not gone."""
    night = world.screen([*_people(5), {**customer(6), "customer_id": ""}], batch="nightly")
    world.write(_people(4), "other.csv")
    with pytest.raises(InputError, match="differs"):
        world.screen(run=night.report["run_id"], input=str(world.folder / "other.csv"))
    (broken,) = csv_rows(night.folder / "quarantine.csv")
    fixed = world.screen([broken | {"customer_id": "C6"}], batch="nightly")
    kinds = pq.read_table(fixed.folder / "changes.parquet")["kind"].to_pylist()
    assert kinds == ["new"]


def test_lookups_are_written_in_any_portions(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each asks for its own customer, wherever a portion ends."""
    monkeypatch.setattr("nightscreen.runs.screening_run._CONVERTED_AT_ONCE", 4)
    night = world.screen([customer(number, **CONSENT) for number in range(1, 12)])
    assert wrong_statuses(night.folder) == []
