"""A contact that is not the registered one is a state of its customer, and never stops a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from nightscreen.sandbox.otp import masked_contact
from nightscreen.sandbox.people import person_of_bvn
from tests.steps.bvn_in_a_test import BvnWorld, asked

if TYPE_CHECKING:
    from pathlib import Path

CUSTOMERS = 20
ELSEWHERE = "+2348099999999"


@pytest.fixture
def world(tmp_path: Path) -> BvnWorld:
    """A world that begins with nothing."""
    return BvnWorld(tmp_path)


def test_a_night_with_a_fifth_of_the_contacts_wrong(world: BvnWorld) -> None:
    """The run goes through; each such customer has the state and the masked hint, and no charge."""
    rows = [
        asked(number, **({"phone": ELSEWHERE} if number % 5 == 0 else {}))
        for number in range(1, CUSTOMERS + 1)
    ]
    told = world.request(rows)
    assert (told.report["state"], told.report["stop_reason"]) == ("completed", None)
    wrong = CUSTOMERS // 5
    assert told.states == {"awaiting_otp": CUSTOMERS - wrong, "wrong_contact": wrong}
    for number in range(5, CUSTOMERS + 1, 5):
        row = told.rows[f"C{number}"]
        registered = person_of_bvn(rows[number - 1]["bvn"]).contacts
        assert row["masked_contact"] == ", ".join(map(masked_contact, registered))
        assert "not the registered one" in row["explained"]
        assert row["otp_link"] is None
    part = told.report["checks"]["bvn_start"]
    assert (part["failed"], part["in_doubt"], part["free"]) == (0, 0, CUSTOMERS)
    assert told.report["cost"]["total"] == "0.00"
    otps = {row["customer_id"]: world.otp(row) or "" for row in rows if row["phone"] != ELSEWHERE}
    done = world.confirm({**otps, "C5": "123456"})
    assert done.states == {"confirmed": CUSTOMERS - wrong, "wrong_contact": wrong}
    assert [code for _, code in done.problems] == ["request_wrong_contact"]


def test_corrected_contact_is_asked_again_and_the_same_one_is_not(world: BvnWorld) -> None:
    """The same file asks nobody twice; a file with another contact asks those it corrects."""
    world.request([asked(1, phone=ELSEWHERE), asked(2, phone=ELSEWHERE), asked(3)])
    again = world.request([asked(1, phone=ELSEWHERE), asked(2, phone=ELSEWHERE), asked(3)])
    assert again.report["checks"]["bvn_start"]["distinct"] == 0
    told = world.request([asked(1), asked(2, phone=ELSEWHERE), asked(3)])
    assert told.report["checks"]["bvn_start"]["distinct"] == 1
    assert told.states == {"awaiting_otp": 2, "wrong_contact": 1}
