"""Signals over the journal's earlier batches: customers are counted, not rows and not nights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from nightscreen.config.settings import Retention
from nightscreen.journal import open_journal
from nightscreen.journal.verify import verify_journal
from nightscreen.privacy.erasure import ErasureTarget, erase, find_person_data
from nightscreen.privacy.explaining import explain
from nightscreen.privacy.lookup_subject import lookup_subject
from nightscreen.privacy.subject_access import access_page, gather
from tests.screening import Night, World, csv_rows, customer

PHONE = "08031234567"


def screened(world: World, batch: str, *rows: dict[str, str], **options: Any) -> Night:  # noqa: ANN401 - as `ScreenBatch` takes them
    file = str(world.write(rows, f"{batch}.csv"))
    wanted = {"checks": ["bank_account", "karma"], "batch": batch, **options}
    return world.screen(input=file, **wanted)


def row_of(night: Night, customer_id: str) -> dict[str, Any]:
    (found,) = (row for row in night.rows if row["customer_id"] == customer_id)
    return found


def other(number: int, like: int, *names: str, **changes: str) -> dict[str, str]:
    """Return a customer who has some identifiers of another."""
    return {**customer(number), **{name: customer(like)[name] for name in names}, **changes}


ACCOUNT = ("account_number", "bank_code")


@dataclass(frozen=True)
class Nights:
    """Nights of three batches, one after another, whose customers share what they have.

    Attributes:
        first: of `salaried`; fifteen of them have one phone.
        again: the same customers, a night later.
        traders: some have a BVN or an account of the salaried; five have the phone.
        others: one more has the phone.
    """

    world: World
    first: Night
    again: Night
    traders: Night
    others: Night


@pytest.fixture(scope="module")
def nights(tmp_path_factory: pytest.TempPathFactory) -> Nights:
    world = World(tmp_path_factory.mktemp("nights"))
    options = {"karma_identities": ["bvn", "phone"]}
    many = [customer(number, phone=PHONE) for number in range(41, 62)]
    alone = [customer(number, phone=f"0803123450{number}") for number in (1, 2, 8)]
    salaried = [*alone, *many[:15]]
    traders = [other(3, 1, "bvn"), customer(4), other(5, 2, *ACCOUNT), alone[2], *many[15:20]]
    others = [many[20], customer(7, phone="08037654321")]
    return Nights(
        world,
        screened(world, "salaried", *salaried, **options),
        screened(world, "salaried", *salaried, **options),
        screened(world, "traders", *traders, other(6, 2, "bvn", *ACCOUNT), **options),
        screened(world, "others", *others, **options),
    )


def test_a_bvn_or_account_of_an_earlier_batch_is_shared(nights: Nights) -> None:
    """A policy's rule follows from the journal as from the batch."""
    same, fresh = row_of(nights.traders, "C3"), row_of(nights.traders, "C4")
    assert (same["batch_same_bvn"], fresh["batch_same_bvn"]) == (1, 0)
    assert ["DUPLICATE_BVN" in row["reasons"] for row in (same, fresh)] == [True, False]
    for who in ("C5", "C6"):
        row = row_of(nights.traders, who)
        assert (row["batch_account_bvns"], row["batch_same_account"]) == (2, 2)
        assert "SHARED_ACCOUNT" in row["reasons"]
    assert row_of(nights.others, "C7")["batch_account_bvns"] == 1


def test_a_phone_of_more_than_twenty_customers_over_batches_is_nobodys(nights: Nights) -> None:
    """Fifteen and five may share one: it is looked up, once. With one more it is not, and told."""
    asked = [call["identity"] for call in nights.world.calls("karma")]
    assert asked.count(f"+234{PHONE[1:]}") == 1
    having = [row_of(nights.traders, f"C{number}") for number in range(56, 61)]
    assert [row["batch_same_phone"] for row in having] == [19] * 5
    assert nights.first.column("batch_same_phone") == [0] * 3 + [14] * 15
    assert set(nights.traders.column("karma_status")) <= {"clear", "listed"}
    night = nights.others
    assert night.column("batch_same_phone") == [20, 0]
    assert night.report["checks"]["karma"]["lookups"] == 3
    problems = csv_rows(night.folder / "problems.csv")
    found = [row for row in problems if row["code"] == "phone_of_many"]
    assert [(row["line"], row["column"], row["action"]) for row in found] == [
        ("2", "phone", "warned")
    ]
    assert night.report["files"]["problems.csv"] >= 1


def test_the_same_customer_is_one_customer(nights: Nights) -> None:
    """A second night, in the same batch name or another, shares nothing with itself."""
    for row in (
        row_of(nights.again, "C1"),
        row_of(nights.again, "C2"),
        row_of(nights.traders, "C8"),
    ):
        for name in ("batch_same_bvn", "batch_same_account", "batch_same_phone"):
            assert row[name] == 0
        assert row["batch_account_bvns"] == 1
    for name in ("batch_same_bvn", "batch_same_account", "batch_same_phone"):
        assert nights.again.column(name) == nights.first.column(name)


def test_an_erased_person_is_counted_no_more(world: World) -> None:
    """Neither as a customer nor under the identifiers they had; others are counted as they were.

    Named in one batch name only, a customer stays known by what the other had. Where a BVN goes, a
    sharing customer's account is still known, but not under which BVN it stood. Rows that were
    purged are not missed: the sightings tell which account was whose, so that its answer goes.
    """
    first = screened(
        world,
        "salaried",
        *(customer(1), customer(2), other(5, 2, *ACCOUNT)),
        *(customer(11), other(12, 11, "bvn"), customer(21)),
    )
    screened(world, "traders", other(21, 26, "bvn", *ACCOUNT))
    for part in (first.folder / "enriched").iterdir():
        part.unlink()
    erased = {}
    with open_journal(world.folder / "home") as journal:
        for whom in (
            ErasureTarget(customer_id="C1"),
            ErasureTarget(customer_id="C11"),
            ErasureTarget(customer_id="C21", batch="salaried"),
        ):
            erased[whom.customer_id] = erase(journal, find_person_data(journal, whom))
        assert verify_journal(journal) == []
    assert erased["C1"]["sightings"] == erased["C1"]["answers"] == erased["C1"]["calls"] == 2
    night = screened(
        world,
        "others",
        *(other(3, 1, "bvn", *ACCOUNT), other(4, 2, "bvn"), other(13, 12, *ACCOUNT)),
        *(other(8, 21, "bvn"), other(9, 26, "bvn")),
    )
    assert night.column("batch_same_bvn") == [0, 1, 0, 0, 1]
    assert night.column("batch_same_account")[:3] == [0, 0, 1]
    assert row_of(night, "C13")["batch_account_bvns"] == 1


def test_what_is_shared_is_explained_and_shown_without_naming_others(nights: Nights) -> None:
    """The rule in its own words, and by how many; alone there is nothing to tell.

    A customer who asks sees each sighting with its batch name and its end, and not who shares it.
    """
    with open_journal(nights.world.folder / "home") as journal:
        second, fifth, first = (
            explain(journal, lookup_subject(journal, each)[0]) for each in ("C6", "C56", "C1")
        )
        held = gather(journal, lookup_subject(journal, "C2"), Retention())
        other_one = journal.pseudonyms.customers_anywhere(["C6"]).hex()
    assert second["signals"] == {
        "batch_same_bvn": 1,
        "batch_same_account": 2,
        "batch_account_bvns": 2,
    }
    assert fifth["signals"] == {"batch_same_phone": 19}
    (duplicate,) = (each for each in second["reasons"] if each["code"] == "DUPLICATE_BVN")
    assert "since earlier ones" in duplicate["rules"][0]["team"]
    assert first["signals"] == {}
    assert sorted(each["kind"] for each in held["sightings"]) == ["bvn", "nuban", "phone"]
    assert {each["batch"] for each in held["sightings"]} == {"salaried"}
    assert all(each["kept_until"] > each["last_written_at"] for each in held["sightings"])
    assert other_one not in repr(held)
    assert "Seen in batches with" in access_page(held)
