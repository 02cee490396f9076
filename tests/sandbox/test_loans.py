"""Loans over the wire: products, short links, where a loan stands, and who may ask."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from typing import TYPE_CHECKING

import pytest

from nightscreen.sandbox.loan_book import FATES, PRODUCTS, WORDS, fate_of
from nightscreen.sandbox.test_identifiers import TABLE
from tests.sandbox.in_process import ORIGIN, here

if TYPE_CHECKING:
    from tests.sandbox.conftest import Caller


async def test_products_are_listed_without_meta() -> None:
    """Always the same, in an envelope without cost or balance."""
    async with here() as one:
        answer = await one.client.get("/v2/loans/products")
        body = answer.json()
        assert set(body) == {"status", "message", "data"}
        shown = [product["product_id"] for product in body["data"]]
        assert shown == [product.product_id for product in PRODUCTS]
        assert all(product["is_active"] == 1 for product in body["data"])


async def test_start_answers_reference_and_link() -> None:
    """The link leads to the sandbox itself, and the form there is filled in from meta."""
    async with here() as one:
        body = {
            "product_id": "LP1002",
            "meta": {"email": "ada@mail.example", "phone_number": "+2348031234567"},
        }
        answer = await one.client.post("/v2/loans/initialize", json=body)
        data = answer.json()["data"]
        assert set(data) == {"reference", "url"}
        assert data["url"].startswith(f"{ORIGIN}/l/")
        assert len(data["url"]) < 60
        page = (await one.browser.get(data["url"])).text
        assert 'value="ada@mail.example"' in page
        assert 'value="+2348031234567"' in page
        assert "Quick loan" in page


async def test_every_start_is_another_loan() -> None:
    """The service knows no repetition: asked twice it makes two links, the same in every run."""
    runs = []
    for _ in range(2):
        async with here() as one:
            runs.append([await one.offer(email="ada@mail.example") for _ in range(3)])
    assert runs[0] == runs[1]
    assert len({offer["reference"] for offer in runs[0]}) == 3
    assert len({offer["url"] for offer in runs[0]}) == 3


@pytest.mark.parametrize(
    ("body", "status", "text"),
    [
        ({}, 504, "timeout"),
        ({"product_id": ""}, 504, "timeout"),
        ([], 504, "timeout"),
        ({"product_id": 1001}, 400, "product_id must be a string"),
        ({"product_id": "LP9999"}, 400, "Loan product not found"),
        ({"product_id": "LP1001", "meta": "ada"}, 400, "meta must be an object"),
        ({"product_id": "LP1001", "meta": {"email": 1}}, 400, "meta.email must be a string"),
    ],
)
async def test_wrong_requests_open_no_loan(body: object, status: int, text: str) -> None:
    """Missing fields, unknown products and wrong types are refused without meta."""
    async with here() as one:
        answer = await one.client.post("/v2/loans/initialize", json=body)
        assert answer.status_code == status
        assert text in answer.text
        assert "meta" not in (answer.json() if status == 400 else {})
        assert (await one.control("loans"))["loans"] == []


async def test_unknown_reference_is_404() -> None:
    """A reference that was never given is an error that is a 404."""
    async with here() as one:
        answer = await one.client.get("/v2/loans/NOPE")
        assert answer.status_code == 404
        assert answer.json() == {"status": "error", "message": "Loan not found"}


@pytest.mark.parametrize("by", ["manner", "scenario"])
async def test_key_of_no_distributor(by: str) -> None:
    """All three operations tell a key that is no distributor's the same thing."""
    async with here("no-distributor" if by == "scenario" else "calm") as one:
        if by == "manner":
            await one.control("manners", {"distributor": False})
        answers = [
            await one.client.get("/v2/loans/products"),
            await one.client.post("/v2/loans/initialize", json={"product_id": "LP1001"}),
            await one.client.get("/v2/loans/ABC"),
        ]
        for answer in answers:
            assert answer.status_code == 400
            assert answer.json()["message"].startswith("This offer is not available")


async def test_loans_are_in_the_ledger_and_cost_nothing() -> None:
    """Three operations by name, no charge, not even from an empty wallet or a planned dry call."""
    async with here() as one:
        await one.control("wallet", {"balance": 0, "dry_at_call": 1})
        await one.client.get("/v2/loans/products")
        reference = (await one.offer(email="ada@mail.example"))["reference"]
        await one.loan(reference)
        shown = await one.control("ledger")
        told = [(entry["operation"], entry["identity"]) for entry in shown["entries"]]
        assert told == [
            ("loan_products", "products"),
            ("loan_start", "LP1001 ada@mail.example"),
            ("loan_view", reference),
        ]
        assert shown["totals"]["charged"] == "0"
        assert shown["wallet"]["calls"] == 0


async def test_faults_reach_loans() -> None:
    """Drawn, scripted and magic faults, denied and unpriced operations hold for loans too."""
    async with here() as one:
        await one.control("faults", {"operation": "loan_view", "rates": {"http_503": 1}})
        assert (await one.client.get("/v2/loans/X")).status_code == 503
        script = [{"operation": "loan_products", "at_call": 1, "fault": "http_429"}]
        await one.control("faults", {"script": script})
        assert (await one.client.get("/v2/loans/products")).status_code == 429
        body = {"product_id": "LP1001", "meta": {"email": "http-502@magic.example"}}
        assert (await one.client.post("/v2/loans/initialize", json=body)).status_code == 502
        denied = {"operation": "loan_products", "rates": {"denied": 1}}
        await one.control("faults", {**denied, "script": []})
        assert (await one.client.get("/v2/loans/products")).status_code == 403


def test_lost_answer_of_a_start_leaves_a_loan(caller: Caller) -> None:
    """Where the connection is cut after the work, the link exists and nobody was told of it."""
    body = {"product_id": "LP1001", "meta": {"email": "cut-after-charge@magic.example"}}
    with pytest.raises(ConnectionError):
        caller.call("POST", "/v2/loans/initialize", body)
    (loan,) = caller.sandbox.get("/_sandbox/loans")["loans"]
    assert loan["email"] == "cut-after-charge@magic.example"
    entry = caller.sandbox.ledger()["entries"][-1]
    assert (entry["outcome"], entry["delivery"], entry["charged"]) == ("offered", "cut", "0")


async def test_loans_in_test_mode() -> None:
    """Everyone gets the same link and loan, marked as mock, and no loan is opened."""
    async with here("test-mode") as one:
        bodies = [
            (await one.client.get("/v2/loans/products")).json(),
            (await one.client.post("/v2/loans/initialize", json={"product_id": "LP1001"})).json(),
            (await one.client.get("/v2/loans/ANY")).json(),
        ]
        assert all(body["mock-response"] and "meta" not in body for body in bodies)
        assert (await one.control("loans"))["loans"] == []


async def test_loan_before_the_form_is_filled_in() -> None:
    """PENDING, to be requested, nothing lent, the customer as far as meta told."""
    async with here() as one:
        reference = (await one.offer(email="clear@magic.example"))["reference"]
        body = (await one.client.get(f"/v2/loans/{reference}")).json()
        assert "meta" not in body
        loan = body["data"]
        assert loan["status"] == {"status": "PENDING", "can_request": True, "can_cancel": False}
        assert (loan["loan_amount"], loan["amount_disbursed"], loan["paid"]) == (None, 0, 0)
        assert loan["user"]["email"] == "clear@magic.example"


async def test_loan_moves_with_the_days() -> None:
    """Applied for, running, repaid month by month, settled: amounts add up on every day."""
    async with here() as one:
        reference = (await one.offer(email="clear@magic.example"))["reference"]
        words, before = [], Decimal(-1)
        for day in range(0, 120, 3):
            await one.control("world", {"day": day})
            loan = (await one.client.get(f"/v2/loans/{reference}")).json()["data"]
            words.append(loan["status"]["status"])
            paid = Decimal(str(loan["paid"]))
            assert paid >= before
            before = paid
        changes = [word for n, word in enumerate(words) if n == 0 or words[n - 1] != word]
        assert changes == ["PENDING", "RUNNING", "SETTLED"]
        assert loan["amount_disbursed"] == loan["loan_amount"]
        months = loan["tenor_value"]
        assert paid == Decimal(loan["loan_amount"]) * (100 + 4 * months) / 100
        assert loan["settled_on"] > loan["disbursed_on"] > loan["created_on"]


@pytest.mark.parametrize(
    ("word", "ends", "applied", "reason"),
    [
        ("loan-rejected", "CANCELLED", True, True),
        ("loan-running", "PENDING", False, False),
        ("loan-never", "PENDING", False, False),
        ("loan-cancelled", "CANCELLED", True, False),
        ("loan-stuck", "PENDING", True, False),
        ("clear", "SETTLED", True, False),
    ],
)
@pytest.mark.parametrize("by", ["email", "phone_number"])
async def test_magic_contacts_decide_the_fate(
    word: str, ends: str, applied: bool, reason: bool, by: str
) -> None:
    """Email and phone of a row choose what has become of the offer after a year."""
    row = next(row for row in TABLE if row.word == word)
    contact = row.email if by == "email" else row.phone
    async with here() as one:
        reference = (await one.offer(**{by: contact}))["reference"]
        await one.control("world", {"day": 400})
        loan = await one.loan(reference)
        assert loan["status"]["status"] == ends
        assert (loan["loan_amount"] is not None) is applied
        assert (loan["reject_reason"] is not None) is reason


async def test_fates_of_many_are_known_beforehand() -> None:
    """Of 400 customers each ends as `fate_of` says, and every fate that is drawn occurs."""
    ends = {"approved": "SETTLED", "rejected": "CANCELLED", "cancelled": "CANCELLED"}
    async with here() as one:
        emails = [f"customer{number}@mail.example" for number in range(400)]
        references = {email: (await one.offer(email=email))["reference"] for email in emails}
        await one.control("world", {"day": 400})
        seen: Counter[str] = Counter()
        for email, reference in references.items():
            fate = fate_of("LP1001", email)
            seen[fate] += 1
            assert await one.status(reference) == ends.get(fate, "PENDING")
    assert set(seen) == set(FATES)
    assert seen["approved"] > 150


async def test_world_can_go_back() -> None:
    """Where a loan stands depends on the day alone, not on the days seen before."""
    async with here() as one:
        reference = (await one.offer(email="clear@magic.example"))["reference"]
        shown = []
        for day in (0, 10, 300, 10, 0):
            await one.control("world", {"day": day})
            shown.append(await one.loan(reference))
        assert shown[0] == shown[4]
        assert shown[1] == shown[3]


@pytest.mark.parametrize("word", WORDS)
async def test_control_surface_moves_a_loan(word: str) -> None:
    """Each word can be set; what runs or is settled has been applied for and lent."""
    async with here() as one:
        reference = (await one.offer(email="loan-never@magic.example"))["reference"]
        shown = await one.control(f"loans/{reference}", {"status": word})
        assert shown["status"] == word
        loan = (await one.client.get(f"/v2/loans/{reference}")).json()["data"]
        assert loan["status"]["status"] == word
        assert (loan["amount_disbursed"] > 0) is (word in ("RUNNING", "SETTLED"))


async def test_steered_loan_goes_on_with_the_days() -> None:
    """Set to run it is paid back in time; set to be turned down it stays so, with its reason."""
    async with here() as one:
        runs = (await one.offer(email="loan-rejected@magic.example"))["reference"]
        fails = (await one.offer(email="clear@magic.example"))["reference"]
        await one.control(f"loans/{runs}", {"status": "RUNNING"})
        await one.control(
            f"loans/{fails}", {"status": "CANCELLED", "reject_reason": "Too many loans"}
        )
        await one.control("world", {"day": 200})
        assert await one.status(runs) == "SETTLED"
        loan = await one.loan(fails)
        assert (loan["status"]["status"], loan["reject_reason"]) == ("CANCELLED", "Too many loans")


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"status": "LOST"},
        {"status": "RUNNING", "reject_reason": "x"},
        {"status": "CANCELLED", "reject_reason": 3},
        {"status": "RUNNING", "colour": "green"},
    ],
)
async def test_control_surface_refuses_what_it_does_not_understand(body: object) -> None:
    """A wrong word, a reason in the wrong place and strange fields change nothing."""
    async with here() as one:
        reference = (await one.offer(email="clear@magic.example"))["reference"]
        before = await one.control("loans")
        answer = await one.browser.post(f"/_sandbox/loans/{reference}", json=body)
        assert answer.status_code == 400
        unknown = await one.browser.post("/_sandbox/loans/NOPE", json={"status": "RUNNING"})
        assert unknown.status_code == 400
        assert await one.control("loans") == before


async def test_control_surface_lists_loans() -> None:
    """All loans or one, with the fate that is in store; none after a reset."""
    async with here() as one:
        first = await one.offer(email="loan-never@magic.example")
        await one.offer(phone_number="08031234567")
        assert len((await one.control("loans"))["loans"]) == 2
        (shown,) = (await one.control(f"loans?reference={first['reference']}"))["loans"]
        assert (shown["fate"], shown["status"], shown["applied_on"]) == ("never", "PENDING", None)
        assert first["url"].endswith(shown["path"])
        await one.control("reset", {})
        assert (await one.control("loans"))["loans"] == []
