"""Planting: anybody's person, account, listing, history or life, under any identifier."""

from __future__ import annotations

from typing import Any

import pytest

from nightscreen.sandbox.people import karma_of, person_of_bvn
from tests.sandbox.consented import Journey

BVN = "12345678901"
NUMBER = "0000000001"
"""A number whose check digit is no bank's: only planted does it exist."""


@pytest.fixture
def journey() -> Journey:
    """A client of a fresh sandbox."""
    return Journey()


async def ask(journey: Journey, method: str, path: str, **body: object) -> dict[str, Any]:
    """Ask the service with the right key."""
    headers = {"Authorization": "Bearer sandbox-key"}
    answer = await journey.http.request(
        method, f"/v2/verification{path}", json=body or None, headers=headers
    )
    return {"http": answer.status_code, **answer.json()}


async def test_a_planted_person_is_who_they_were_said_to_be(journey: Journey) -> None:
    """Account, history and BVN details name the person planted; the rest stays as made up."""
    person = {"first_name": "Ngozi", "last_name": "Testcase", "phone": "08031234567"}
    account = {"bank_code": "058", "account_number": NUMBER}
    shown = await journey.control(
        "people", bvn=BVN, person=person, account=account, history={"past_due_loans": 7}
    )
    assert shown["person"]["gender"] == person_of_bvn(BVN).gender
    held = await ask(journey, "POST", "/bankaccount/bvn", **account)
    assert {"NGOZI", "TESTCASE"} <= set(
        held["data"]["account_name"].upper().replace(",", "").split()
    )
    history = (await ask(journey, "GET", f"/ecosystem/{BVN}"))["data"]
    assert (history["first_name"], history["past_due_loans"]) == ("Ngozi", 7)
    sent = await ask(journey, "POST", f"/bvn/{BVN}/accounts", contact="+2348031234567")
    assert sent["status"] == "otp"


async def test_what_is_planted_as_absent_is_not_found(journey: Journey) -> None:
    """An account that is there and a history that is known go, and come back with a reset."""
    bvn = "22123456789"
    code, number = person_of_bvn(bvn).account
    account = {"bank_code": code, "account_number": number}
    await journey.control("people", bvn=bvn, account={**account, "exists": False}, history=None)
    assert (await ask(journey, "POST", "/bankaccount/bvn", **account))["http"] == 500
    assert (await ask(journey, "GET", f"/ecosystem/{bvn}"))["http"] == 404
    await journey.control("reset")
    assert (await ask(journey, "POST", "/bankaccount/bvn", **account))["http"] == 200


async def test_any_identifier_is_listed_or_cleared(journey: Journey) -> None:
    """A listing is planted under a BVN, phone, email, domain or account, and taken away."""
    identities = ("12345678902", "+2348000000001", "a@b.example", "b.example", "058-0000000002")
    for identity in identities:
        assert karma_of(identity) is None
        record = {"amount_in_contention": "77.00"}
        await journey.control("people", listing={"identity": identity, "record": record})
        data = (await ask(journey, "GET", f"/karma/{identity}"))["data"]
        assert (data["karma_identity"], data["amount_in_contention"]) == (identity, "77.00")
        await journey.control("people", listing={"identity": identity, "listed": False})
        assert (await ask(journey, "GET", f"/karma/{identity}"))["http"] == 404


async def test_a_planted_life_is_pulled_and_its_truth_read(journey: Journey) -> None:
    """Who signs in under a planted name earns what was planted; tests read the truth."""
    life = {"kind": "monthly", "pay": 333_000, "employer": "ACME NIG", "months": 3}
    await journey.control("people", customer="ngozi", bvn=BVN, life=life)
    token = (await journey.tokens("ngozi"))["access_token"]
    records = (await journey.data(token)).json()["data"]
    pay = [one for one in records if "ACME NIG" in one["narration"]]
    assert len({one["transaction_date"][:7] for one in pay}) == 3
    profile = (await journey.data(token, "/profile")).json()["data"]
    assert profile["first_name"] == person_of_bvn(BVN).first_name
    (account, *_) = (await journey.data(token, "/bank-accounts")).json()["data"]
    assert account["account_number"] == person_of_bvn(BVN).account_number
    await journey.control("people", customer="ngozi", bvn="12345678909")
    (account, *_) = (await journey.data(token, "/bank-accounts")).json()["data"]
    assert account["account_number"] == person_of_bvn("12345678909").account_number
    await journey.control("people", bvn="12345678909", person={"first_name": "Zuwaira"})
    profile = (await journey.data(token, "/profile")).json()["data"]
    assert profile["first_name"] == "Zuwaira"
    answer = await journey.http.get("/_sandbox/truth?customer=ngozi")
    truth = answer.json()["truth"]
    assert (truth["employer"], truth["income_monthly"]) == ("ACME NIG", 333_000)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({"bvn": BVN}, "name what to plant"),
        ({"person": {"first_name": "A"}}, "needs the bvn"),
        ({"life": {"kind": "monthly"}}, "needs the customer"),
        ({"customer": "a", "life": {"kind": "pirate"}}, "no kind of life"),
        ({"bvn": "123", "history": {}}, "bvn"),
        ({"bvn": BVN, "person": {}, "history": {"past_due": 2}}, "no field past_due; it has"),
        ({"bvn": BVN, "listing": {"identity": BVN, "record": {"karma_typ": "x"}}}, "karma_type"),
        ({"bvn": BVN, "person": {"date_of_birth": "yesterday"}}, "date_of_birth"),
    ],
)
async def test_what_cannot_be_planted_is_said(
    journey: Journey, body: dict[str, object], says: str
) -> None:
    """A body that is not understood is a 400 with the reason, and plants nothing."""
    answer = await journey.http.post("/_sandbox/people", json=body)
    assert answer.status_code == 400
    assert says in answer.json()["error"]
    assert not journey.sandbox.planted.people
    assert not journey.sandbox.planted.histories
    assert not journey.sandbox.planted.listings


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"host": "evil.example"}, 403),
        ({"host": "127.0.0.1:8800", "origin": "https://evil.example"}, 403),
        ({"host": "127.0.0.1:8800", "origin": "null"}, 403),
        ({"host": "127.0.0.1:8800", "origin": "http://127.0.0.1:8800"}, 200),
        ({"host": "localhost:8800"}, 200),
        ({"host": "sandbox:8800"}, 200),
        ({"host": "[::1]:8800"}, 200),
    ],
)
async def test_foreign_pages_cannot_steer_it(
    journey: Journey, headers: dict[str, str], status: int
) -> None:
    """The control surface refuses a foreign Host or Origin, for looks and for changes."""
    assert (await journey.http.get("/_sandbox/state", headers=headers)).status_code == status
    answer = await journey.http.post("/_sandbox/world", json={"day": 3}, headers=headers)
    assert answer.status_code == status
    assert journey.sandbox.day == (3 if status == 200 else 0)
