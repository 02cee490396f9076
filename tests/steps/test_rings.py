"""Rings: customers tied by what they share, across batches, and never more than a review."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from nightscreen.cli.people import explain
from nightscreen.files.outputs import RINGS_FILE
from nightscreen.journal import open_journal
from nightscreen.journal.customers import Customers
from nightscreen.planning.rings import RINGS_SCHEMA
from nightscreen.policy.load import check_policy
from nightscreen.privacy.erasure import erase, look
from nightscreen.privacy.person import Whom
from tests.screening import World, customer

if TYPE_CHECKING:
    from pathlib import Path

    from tests.screening import Night


def tied(number: int, **shared: str) -> dict[str, str]:
    """Return a customer of their own but for what is shared."""
    own = {"phone": f"0803{number:07d}", "email": f"c{number}@mail.example"}
    return customer(number, **{**own, **shared})


PHONE, EMAIL = {"phone": "08031112223"}, {"email": "both@mail.example"}
CHAIN = [
    tied(1, **PHONE),
    tied(2, **PHONE),
    tied(3, bvn="22000000002"),  # the second customer's
    tied(4),
    tied(5, **EMAIL),
    tied(6, **EMAIL),
]


def night(world: World, rows: list[dict[str, str]], **options: Any) -> Night:  # noqa: ANN401
    """Screen with rings on."""
    return world.screen(rows, checks=["karma"], **options)


def rings(night: Night) -> list[dict[str, Any]]:
    """Return a run's rings."""
    table = pq.read_table(night.folder / RINGS_FILE)
    assert table.schema.equals(RINGS_SCHEMA)
    return list(table.to_pylist())


@pytest.fixture
def ringed(tmp_path: Path) -> World:
    """A lender who looks for rings."""
    return World(tmp_path, settings={"rings": True, "ring_hub": 4})


def test_who_is_tied_is_one_ring_and_a_reason_to_review(ringed: World) -> None:
    """A shared phone and a shared BVN make one ring of three; a pair is no reason."""
    found = night(ringed, CHAIN)
    by_id = {row["customer_id"]: row for row in found.rows}
    assert [by_id[f"C{n}"]["ring_size"] for n in range(1, 7)] == [3, 3, 3, None, 2, 2]
    assert len({by_id[f"C{n}"]["ring"] for n in (1, 2, 3)}) == 1
    assert by_id["C1"]["ring"] != by_id["C5"]["ring"]
    for number in range(1, 7):
        row = by_id[f"C{number}"]
        assert ("RING" in row["reasons"]) is (number <= 3)
    rows = rings(found)
    assert len(rows) == 5
    assert {tuple(row["ties"]) for row in rows if row["ring_size"] == 3} == {
        ("phone",),
        ("bvn", "phone"),
        ("bvn",),
    }


def test_rings_reach_into_earlier_batches_and_other_names(ringed: World) -> None:
    """Two of a ring were seen last week under another batch name: today's file has the third."""
    night(ringed, CHAIN[:2], batch="january")
    found = night(ringed, [CHAIN[2]], batch="february")
    assert found.rows[0]["ring_size"] == 3
    assert sorted(row["here"] for row in rings(found)) == [False, False, True]
    assert {row["ring"] for row in rings(found)} == {found.rows[0]["ring"]}


def test_an_identifier_of_many_is_a_hub_and_ties_nobody(ringed: World) -> None:
    """A phone of five customers is a branch's; what four share still ties them."""
    branch = {"phone": "08099999999"}
    few = {"phone": "08088888888"}
    rows = [tied(n, **branch) for n in range(1, 6)] + [tied(n, **few) for n in range(6, 10)]
    found = night(ringed, rows)
    assert [row["ring_size"] for row in found.rows] == [None] * 5 + [4] * 4


@pytest.mark.parametrize(("effect", "sound"), [("decline", False), ("review", True)])
def test_a_ring_is_never_more_than_a_review(effect: str, sound: bool) -> None:
    """A policy that declines because of a ring is refused, whatever else its rule asks."""
    rule = f"""
name = "rings"
version = "1"

[[rules]]
code = "TIED"
effect = "{effect}"
when = "ring_size > 9 or karma_status = 'listed'"
team = "Tied."
customer = "Tied."

[[rules]]
code = "CLEAR"
effect = "approve"
when = "karma_status = 'clear'"
team = "Clear."
customer = "Clear."
"""
    mistakes = [each.message for each in check_policy(rule).issues]
    assert any("ring" in each for each in mistakes) is not sound


def test_explain_names_nobody_else_and_erasure_takes_the_person_out(
    ringed: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """How large the ring is, not who is in it; who is erased is gone from the file."""
    found = night(ringed, CHAIN)
    monkeypatch.setenv("NIGHTSCREEN_HOME", str(ringed.folder / "home"))
    explain(customer_id="C1", batch="", as_json=True)
    said = capsys.readouterr().out
    assert json.loads(said)["signals"]["ring_size"] == 3
    others = {row["customer"] for row in rings(found)} - {json.loads(said)["customer"]}
    assert not [each for each in (*others, "C2", "C3", CHAIN[1]["bvn"]) if each in said]
    with open_journal(ringed.folder / "home") as journal:
        before = {row["customer"] for row in rings(found)}
        gone = journal.pseudonyms.customers_anywhere(["C1"]).hex()
        erase(journal, look(journal, Customers(journal), Whom(customer_id="C1")))
    assert {row["customer"] for row in rings(found)} == before - {gone}
