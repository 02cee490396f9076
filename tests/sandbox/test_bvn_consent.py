"""BVN consent: the customer's passwords, the ways in which consent fails, and what it costs."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from nightscreen.sandbox import test_identifiers
from nightscreen.sandbox.otp import drawn_delivery, masked_contact
from nightscreen.sandbox.people import bvn_accounts, contacts_of, otp_of, person_of_bvn
from tests.sandbox.in_process import Here, here

if TYPE_CHECKING:
    import httpx

    from tests.sandbox.conftest import Caller

BVN = "22123456789"


async def start(one: Here, bvn: str = BVN, contact: str = "") -> httpx.Response:
    """Ask for consent, at the registered phone or another contact."""
    body = {"contact": contact or contacts_of(bvn)[0]}
    return await one.client.post(f"/v2/verification/bvn/{bvn}/accounts", json=body)


async def finish(one: Here, bvn: str, otp: str) -> httpx.Response:
    """Supply a password."""
    return await one.client.put(f"/v2/verification/bvn/{bvn}/accounts", json={"otp": otp})


async def held(one: Here, bvn: str = BVN) -> dict[str, Any]:
    """Look at what a customer holds."""
    (shown,) = (await one.control(f"otps?bvn={bvn}"))["otps"]
    assert isinstance(shown, dict)
    return shown


async def test_customer_reads_the_password_and_consents() -> None:
    """The password on the control surface is the one that ends in the record, once."""
    async with here() as one:
        phone = contacts_of(BVN)[0]
        assert (await start(one)).json()["data"] == masked_contact(phone)
        seen = await held(one)
        assert (seen["state"], seen["contact"], seen["number"]) == ("arrived", phone, 1)
        done = await finish(one, BVN, seen["otp"])
        assert done.json()["data"]["bvn"] == BVN
        assert (await held(one))["state"] == "used"
        again = await finish(one, BVN, seen["otp"])
        assert (again.status_code, again.json()["message"]) == (400, "Please call initialize")


async def test_start_is_free_and_finish_is_charged() -> None:
    """Both calls are in the ledger: 0 naira for the start, 20 for the finish, none for errors."""
    async with here() as one:
        started = (await start(one)).json()
        await finish(one, BVN, "000001")
        finished = (await finish(one, BVN, otp_of(BVN))).json()
        assert (started["meta"]["cost"], finished["meta"]["cost"]) == (0, 20)
        assert started["meta"]["balance"] - finished["meta"]["balance"] == 20
        entries = (await one.control("ledger"))["entries"]
        told = [(entry["operation"], entry["outcome"], entry["charged"]) for entry in entries]
        assert told == [
            ("bvn_start", "otp_sent", "0"),
            ("bvn_finish", "wrong_otp", "0"),
            ("bvn_finish", "consented", "20"),
        ]


async def test_finish_before_start_is_refused() -> None:
    """Without a start there is nothing to finish, whatever the password."""
    async with here() as one:
        answer = await finish(one, BVN, otp_of(BVN))
        assert (answer.status_code, answer.json()["message"]) == (400, "Please call initialize")
        assert (await one.control("otps")) == {"otps": []}


async def test_second_start_replaces_the_password() -> None:
    """The first password is wrong once another was sent; the second is right."""
    async with here() as one:
        await start(one)
        first = (await held(one))["otp"]
        await start(one)
        seen = await held(one)
        assert (seen["otp"], seen["number"]) == (otp_of(BVN, 2), 2)
        assert seen["otp"] != first
        refused = await finish(one, BVN, first)
        assert refused.json() == {
            "status": "error",
            "message": "Wrong OTP entered",
            "meta": {"balance": 1_000_000},
        }
        assert (await finish(one, BVN, seen["otp"])).status_code == 200


async def test_wrong_passwords_are_counted_and_harmless() -> None:
    """The customer may try again after wrong passwords."""
    async with here() as one:
        await start(one)
        for otp in ("1", "12345", "abcdef"):
            assert (await finish(one, BVN, otp)).json()["message"] == "Wrong OTP entered"
        assert (await held(one))["wrong"] == 3
        assert (await finish(one, BVN, otp_of(BVN))).status_code == 200


async def test_password_expires_without_waiting() -> None:
    """Time is moved ahead past ten minutes; one second before them, the password is good."""
    async with here() as one:
        for ahead, status in ((599, 200), (601, 400)):
            await start(one)
            await one.control("clock", {"advance_s": ahead})
            answer = await finish(one, BVN, (await held(one))["otp"])
            assert answer.status_code == status
        assert answer.json()["message"] == "OTP has expired"
        assert (await held(one))["state"] == "expired"


async def test_time_starts_afresh_at_a_reset() -> None:
    """A reset forgets passwords and brings the sandbox's time back."""
    async with here() as one:
        await start(one)
        await one.control("clock", {"advance_s": 5})
        assert (await one.control("state"))["ahead_s"] == 5
        await one.control("reset", {})
        assert (await one.control("state"))["ahead_s"] == 0
        assert (await one.control("otps"))["otps"] == []


async def test_password_that_never_arrives() -> None:
    """The start promises a password, but none can be read and none is right."""
    row = test_identifiers.by_word("otp-never")
    async with here() as one:
        assert (await start(one, row.bvn)).json()["status"] == "otp"
        await one.control("clock", {"advance_s": 500})
        seen = await held(one, row.bvn)
        assert (seen["otp"], seen["state"]) == (None, "under_way")
        assert (await finish(one, row.bvn, otp_of(row.bvn))).json()["message"].startswith("Wrong")


async def test_late_password() -> None:
    """A late password arrives when it has expired."""
    row = test_identifiers.by_word("otp-late")
    async with here() as one:
        await start(one, row.bvn)
        assert (await held(one, row.bvn))["otp"] is None
        await one.control("clock", {"advance_s": 900})
        otp = (await held(one, row.bvn))["otp"]
        assert otp == otp_of(row.bvn)
        assert (await finish(one, row.bvn, otp)).json()["message"] == "OTP has expired"


async def test_unreachable_contact_is_an_error_of_the_start() -> None:
    """Nothing is sent where the contact is lost, so there is nothing to finish."""
    row = test_identifiers.by_word("unreachable")
    async with here() as one:
        answer = await start(one, row.bvn)
        assert (answer.status_code, answer.json()["status"]) == (400, "error")
        assert (await one.control("otps"))["otps"] == []
        assert (await finish(one, row.bvn, otp_of(row.bvn))).status_code == 400
        assert (await one.control("ledger?totals=1"))["totals"]["charged"] == "0"


def test_password_goes_to_the_registered_contact_however_it_is_written(caller: Caller) -> None:
    """Phone and email are taken in any form, masked too; the answer shows the registered one."""
    phone, email = contacts_of(BVN)
    forms = (phone, f"+234{phone[1:]}", f"234{phone[1:]}", masked_contact(phone))
    for contact in (*forms, masked_contact(f"+234{phone[1:]}")):
        assert caller.bvn_start(BVN, contact).json["data"] == masked_contact(phone)
    for contact in (email, email.upper(), masked_contact(email)):
        assert caller.bvn_start(BVN, contact).json["data"] == masked_contact(email)


@pytest.mark.parametrize("form", ["400_text", "400_data"])
async def test_another_contact_is_refused_with_the_right_ones_masked(form: str) -> None:
    """Nothing is sent, nothing is charged, and the registered contacts are shown masked only."""
    async with here() as one:
        await one.control("manners", {"wrong_contact": form})
        answer = await start(one, BVN, "08039999999")
        body = answer.json()
        assert (answer.status_code, body["status"]) == (400, "error")
        shown = body["data"] if form.endswith("data") else body["message"]
        for contact in contacts_of(BVN):
            assert masked_contact(contact) in shown
            assert contact not in answer.text
        assert body["meta"] == {"balance": 1_000_000}
        assert (await one.control("otps"))["otps"] == []
        assert (await one.control("ledger"))["entries"][0]["outcome"] == "wrong_contact"


async def test_details_and_accounts_together() -> None:
    """One row ends with the details and, among them, the bank accounts."""
    bvn = test_identifiers.by_word("together").bvn
    async with here() as one:
        await start(one, bvn)
        data = (await finish(one, bvn, otp_of(bvn))).json()["data"]
        assert data["bvn"] == bvn
        assert data["accounts"] == bvn_accounts(bvn)


def test_accounts_of_a_bvn_bear_a_status_as_a_number() -> None:
    """Statuses run from 1 to 8, most are active, and the person's own account comes first."""
    people = [f"22{number * 7919:09d}" for number in range(400)]
    accounts = [bvn_accounts(bvn) for bvn in people]
    statuses = Counter(one["account_status"] for each in accounts for one in each)
    assert set(statuses) == set(range(1, 9))
    assert statuses[1] > sum(statuses.values()) / 2
    for bvn, each in zip(people, accounts, strict=True):
        assert each[0]["account_number"] == person_of_bvn(bvn).account_number
        assert {one["account_designation"] for one in each} == {"INDIVIDUAL"}


@pytest.mark.parametrize("habit", ["details", "accounts"])
async def test_rows_choose_the_shape_whatever_the_habit(habit: str) -> None:
    """One row always ends with the details object, another always with a list of accounts."""
    async with here() as one:
        await one.control("manners", {"bvn_finish": habit})
        for word, kind in (("details", dict), ("accounts", list)):
            bvn = test_identifiers.by_word(word).bvn
            await start(one, bvn)
            assert isinstance((await finish(one, bvn, otp_of(bvn))).json()["data"], kind)


async def test_watchlisted_and_incomplete_records() -> None:
    """One row is on the watch list; another lacks fields, has them empty, or null."""
    async with here() as one:
        records = {}
        for word in ("watchlisted", "incomplete", "clear"):
            bvn = test_identifiers.by_word(word).bvn
            await start(one, bvn)
            records[word] = (await finish(one, bvn, otp_of(bvn))).json()["data"]
    assert [records[word]["watchlisted"] for word in records] == [1, 0, 0]
    incomplete = records["incomplete"]
    assert incomplete["email"] is None
    assert incomplete["residential_address"] == ""
    assert "image_url" not in incomplete
    assert set(incomplete) < set(records["clear"])


async def test_password_as_a_number_is_refused() -> None:
    """A one-time password is text: as a number it would lose its leading zeros."""
    async with here() as one:
        await start(one)
        path = f"/v2/verification/bvn/{BVN}/accounts"
        answer = await one.client.put(path, json={"otp": 123456})
        assert (answer.status_code, answer.json()["message"]) == (400, "otp must be a string")


async def test_empty_wallet_leaves_the_password_unused() -> None:
    """A finish that cannot be paid is 402; after a top-up the same password is good."""
    async with here() as one:
        await start(one)
        await one.control("wallet", {"balance": 5})
        assert (await finish(one, BVN, otp_of(BVN))).status_code == 402
        await one.control("wallet", {"top_up": 20})
        assert (await finish(one, BVN, otp_of(BVN))).json()["meta"]["balance"] == 5


def test_finish_in_doubt_is_charged_and_uses_the_password_up(caller: Caller) -> None:
    """The start is answered; the finish is paid for and cut; a second finish finds it used."""
    bvn = test_identifiers.by_word("finish-in-doubt").bvn
    assert caller.bvn_start(bvn).json["status"] == "otp"
    with pytest.raises(ConnectionError):
        caller.bvn_finish(bvn, otp_of(bvn))
    entry = caller.sandbox.ledger()["entries"][-1]
    assert (entry["outcome"], entry["charged"], entry["delivery"]) == ("consented", "20", "cut")
    (seen,) = caller.sandbox.get(f"/_sandbox/otps?bvn={bvn}")["otps"]
    assert seen["state"] == "used"


def test_start_in_doubt_has_sent_the_password(caller: Caller) -> None:
    """The answer of the start is lost, yet the customer has a password that works."""
    bvn = test_identifiers.by_word("start-in-doubt").bvn
    with pytest.raises(ConnectionError):
        caller.bvn_start(bvn)
    (seen,) = caller.sandbox.get(f"/_sandbox/otps?bvn={bvn}")["otps"]
    assert caller.bvn_finish(bvn, seen["otp"]).json["data"]["bvn"] == bvn


async def test_five_hundred_mixed_customers() -> None:
    """Each customer's fate is known beforehand, and the ledger agrees with what came of it."""
    bvns = [f"22{700_000_000 + 7919 * number:09d}" for number in range(500)]
    async with here("mixed-consents") as one:
        found: Counter[str] = Counter()
        for bvn in bvns:
            await start(one, bvn, person_of_bvn(bvn).phone)
        passwords = {sent["bvn"]: sent for sent in (await one.control("otps"))["otps"]}
        for bvn in bvns:
            delivery = drawn_delivery(bvn)
            found[delivery] += 1
            assert (bvn in passwords) is (delivery != "unreachable")
            otp = passwords.get(bvn, {}).get("otp")
            assert (otp is not None) is (delivery == "prompt")
            if otp:
                assert (await finish(one, bvn, otp)).status_code == 200
        totals = (await one.control("ledger?totals=1"))["totals"]
    assert set(found) == {"prompt", "late", "never", "unreachable"}
    assert totals["charged"] == str(20 * found["prompt"])
    assert totals["by_operation"]["bvn_start"]["requests"] == 500


def test_passwords_never_repeat_soon() -> None:
    """A thousand passwords of one customer are all different, six digits, never the late one."""
    passwords = [otp_of(BVN, number) for number in range(1, 1001)]
    assert len(set(passwords)) == 1000
    assert all(len(one) == 6 and one.isdigit() and one != "999999" for one in passwords)
