"""The form behind a short link, filled in as a customer does, in a browser without script."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import TYPE_CHECKING

import pytest

from tests.sandbox.in_process import here

if TYPE_CHECKING:
    import httpx

ADA = {
    "first_name": "Ada",
    "last_name": "Obi",
    "date_of_birth": "1990-05-27",
    "email": "ada@mail.example",
    "phone_number": "0803 123 4567",
    "amount": "50000",
    "tenor": "3",
    "consent": "yes",
}


def heading(answer: httpx.Response) -> str:
    """Return the heading of a page."""
    found = re.search(r"<h1>(.*?)</h1>", answer.text)
    assert found, answer.text
    return found[1]


async def test_application_by_hand_runs_and_is_settled() -> None:
    """The lender sees who asks for what; the day after it runs, after its months it is settled."""
    async with here() as one:
        offer = await one.offer(email="clear@magic.example")
        assert heading(await one.browser.get(offer["url"])) == "Apply: Salary advance"
        sent = await one.browser.post(offer["url"], data=ADA)
        assert (sent.status_code, sent.headers["location"]) == (303, offer["url"][-11:])
        loan = await one.loan(offer["reference"])
        assert loan["status"] == {"status": "PENDING", "can_request": False, "can_cancel": True}
        assert loan["loan_amount"] == 50_000
        assert loan["user"] == {
            "first_name": "Ada",
            "last_name": "Obi",
            "email": "ada@mail.example",
            "phone_number": "+2348031234567",
        }
        told = []
        for day in (0, 1, 40, 91):
            await one.control("world", {"day": day})
            page = await one.browser.get(offer["url"])
            told.append((await one.status(offer["reference"]), heading(page)))
        assert told == [
            ("PENDING", "We have your application"),
            ("RUNNING", "Your loan is running"),
            ("RUNNING", "Your loan is running"),
            ("SETTLED", "Your loan is paid back"),
        ]
        assert "₦56,000" in page.text
        assert (await one.control("ledger"))["entries"][0]["operation"] == "loan_start"


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("first_name", " ", "First name is missing"),
        ("amount", "NaN", "Enter an amount from ₦5,000 to ₦150,000"),
        ("amount", "150001", "Enter an amount from ₦5,000 to ₦150,000"),
        ("tenor", "9", "Choose for how long"),
        ("consent", "", "Agree to the lender"),
    ],
)
async def test_wrong_form_comes_again(field: str, value: str, says: str) -> None:
    """What is wrong is told, what was typed is kept as text, and no application is made."""
    async with here() as one:
        offer = await one.offer()
        sent = await one.browser.post(offer["url"], data={**ADA, "last_name": "<b>", field: value})
        assert sent.status_code == 422
        assert says in sent.text.replace("&#39;", "'")
        assert 'value="&lt;b&gt;"' in sent.text
        assert (await one.loan(offer["reference"]))["loan_amount"] is None


async def test_form_is_taken_once() -> None:
    """A second form changes nothing, nor does one for an offer that was closed."""
    async with here() as one:
        for closed in (False, True):
            offer = await one.offer(email="loan-never@magic.example")
            if closed:
                await one.control(f"loans/{offer['reference']}", {"status": "CANCELLED"})
            for amount in ("50000", "60000"):
                sent = await one.browser.post(offer["url"], data={**ADA, "amount": amount})
                assert sent.status_code == 303
            asked = (await one.loan(offer["reference"]))["loan_amount"]
            assert asked == (None if closed else 50_000)


async def test_unknown_link() -> None:
    """A link that was never given leads to a page that says so."""
    async with here() as one:
        answer = await one.browser.get("/l/nothing")
        assert (answer.status_code, heading(answer)) == (404, "This link is not known")


class Labels(HTMLParser):
    """Collects what a form promises to people who cannot see it."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.labelled: set[str | None] = set()
        self.fields: set[str | None] = set()
        self.tags: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note labels and fields."""
        given = dict(attrs)
        self.tags.append(tag)
        if tag == "label":
            self.labelled.add(given.get("for"))
        if tag in ("input", "select") and given.get("type") != "checkbox":
            self.fields.add(given["id"])


async def test_form_needs_no_script_and_names_its_fields() -> None:
    """Each field has a label; nothing but the page and its form is let through."""
    async with here() as one:
        answer = await one.browser.get((await one.offer())["url"])
        page = Labels(answer.text)
        assert page.fields <= page.labelled
        assert "script" not in page.tags
        assert "default-src 'none'" in answer.headers["content-security-policy"]
