"""BVN consent: the customer's passwords, the ways in which consent fails, and what it costs."""

from __future__ import annotations

from typing import Any

import pytest

from nightscreen.sandbox.otp import masked_contact
from nightscreen.sandbox.people import otp_of, person_of_bvn
from nightscreen.sandbox.test_identifiers import by_word
from tests.sandbox.in_process import Here

BVN = "22123456789"
PHONE, EMAIL = person_of_bvn(BVN).contacts


async def held(here: Here, bvn: str = BVN) -> dict[str, Any]:
    """Look at what a customer holds."""
    (shown,) = (await here.control(f"otps?bvn={bvn}"))["otps"]
    assert isinstance(shown, dict)
    return shown


async def test_customer_reads_the_password_and_consents_once() -> None:
    """The start is free, a wrong password harmless, the right one ends in the record for 20."""
    here = Here()
    assert (await here.finish(BVN, otp_of(BVN))).json()["message"] == "Please call initialize"
    started = (await here.start(BVN)).json()
    assert (started["data"], started["meta"]["cost"]) == (masked_contact(PHONE), 0)
    seen = await held(here)
    assert (seen["state"], seen["contact"], seen["number"]) == ("arrived", PHONE, 1)
    wrong = await here.finish(BVN, "000001")
    assert (wrong.status_code, wrong.json()["message"]) == (400, "Wrong OTP entered")
    assert (await held(here))["wrong"] == 1
    done = (await here.finish(BVN, seen["otp"])).json()
    assert (done["data"]["bvn"], done["meta"]["cost"]) == (BVN, 20)
    assert (await held(here))["state"] == "used"
    again = await here.finish(BVN, seen["otp"])
    assert (again.status_code, again.json()["message"]) == (400, "Please call initialize")
    told = [(entry.outcome, entry.charged) for entry in here.sandbox.ledger.entries]
    words = ("not_started", "otp_sent", "wrong_otp", "consented", "not_started")
    assert told == [(word, 20_000_000 * (word == "consented")) for word in words]


@pytest.mark.parametrize(
    ("word", "after_s", "state", "arrives", "message"),
    [
        ("clear", 599, "arrived", True, "Successful"),
        ("clear", 601, "expired", True, "OTP has expired"),
        ("otp-late", 899, "expired", False, "OTP has expired"),
        ("otp-late", 900, "expired", True, "OTP has expired"),
        ("otp-never", 500, "under_way", False, "Wrong OTP entered"),
    ],
)
async def test_passwords_arrive_and_expire_without_waiting(
    word: str, after_s: int, state: str, arrives: bool, message: str
) -> None:
    """Time is moved ahead: ten minutes, fifteen for a late one, or never; a reset ends it all."""
    here, bvn = Here(), by_word(word).bvn
    await here.start(bvn)
    await here.control("clock", advance_s=after_s)
    seen = await held(here, bvn)
    assert (seen["state"], seen["otp"] is not None) == (state, arrives)
    assert (await here.finish(bvn, otp_of(bvn))).json()["message"] == message
    await here.control("reset", {})
    assert (await here.control("otps"))["otps"] == []
    assert (await here.control("state"))["ahead_s"] == 0
