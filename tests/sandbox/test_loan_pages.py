"""The hosted loan form, walked through as its customers do, in a browser without script."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import TYPE_CHECKING

import pytest

from nightscreen.sandbox.loan_book import code_of
from tests.sandbox.in_process import Here, here

if TYPE_CHECKING:
    import httpx

ADA = {
    "first_name": "Ada",
    "last_name": "Obi",
    "date_of_birth": "1990-05-27",
    "email": "ada@mail.example",
    "phone_number": "0803 123 4567",
}
ASKED = {"amount": "₦50,000", "tenor": "3", "consent": "yes"}


class Labels(HTMLParser):
    """Collects what a form promises to people who cannot see it."""

    def __init__(self) -> None:
        super().__init__()
        self.labelled: set[str] = set()
        self.fields: dict[str, dict[str, str | None]] = {}
        self.ids: set[str] = set()
        self.tags: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note labels, fields and anchors."""
        given = dict(attrs)
        self.tags.append(tag)
        self.ids.add(given.get("id") or "")
        if tag == "label":
            self.labelled.add(given["for"] or "")
        if tag in ("input", "select") and given.get("type") != "hidden":
            self.fields[given["id"] or ""] = given


def read(page: str) -> Labels:
    """Read a page."""
    labels = Labels()
    labels.feed(page)
    return labels


def heading(answer: httpx.Response) -> str:
    """Return the heading of a page."""
    found = re.search(r"<h1>(.*?)</h1>", answer.text)
    assert found, answer.text
    return found[1]


async def send(one: Here, url: str, form: dict[str, str]) -> httpx.Response:
    """Send a form and go where the browser is sent."""
    return await one.browser.post(url, data=form, follow_redirects=True)


async def log_in(one: Here, url: str, contact: str) -> httpx.Response:
    """Log in with a contact and the code that its owner has."""
    await send(one, f"{url}/login", {"contact": contact})
    return await send(one, f"{url}/login", {"contact": contact, "code": code_of(contact)})


async def test_new_customer_gives_details_and_applies() -> None:
    """One form, then the state of the application; the distributor sees who asks for what."""
    async with here() as one:
        offer = await one.offer("LP1001", email="ada@mail.example")
        page = await one.browser.get(offer["url"])
        assert heading(page) == "Apply: Salary advance"
        done = await send(one, f"{offer['url']}/apply", ADA | ASKED)
        assert heading(done) == "We have your application"
        assert offer["reference"] in done.text
        loan = await one.loan(offer["reference"])
        assert loan["status"] == {"status": "PENDING", "can_request": False, "can_cancel": True}
        assert loan["loan_amount"] == 50_000
        assert loan["user"] == {
            "first_name": "Ada",
            "last_name": "Obi",
            "email": "ada@mail.example",
            "phone_number": "+2348031234567",
        }


async def test_application_by_hand_runs_and_is_settled() -> None:
    """The day after it runs, after its months it is settled; the customer's page says so too."""
    async with here() as one:
        offer = await one.offer(email="clear@magic.example")
        await send(one, f"{offer['url']}/apply", ADA | ASKED)
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


async def test_rejected_customer_reads_why() -> None:
    """The reason that the distributor sees is the reason on the page."""
    async with here() as one:
        offer = await one.offer(email="loan-rejected@magic.example")
        form = ADA | ASKED | {"email": "loan-rejected@magic.example"}
        await send(one, f"{offer['url']}/apply", form)
        await one.control("world", {"day": 1})
        page = await one.browser.get(offer["url"])
        loan = await one.loan(offer["reference"])
        assert heading(page) == "Your application was turned down"
        assert loan["reject_reason"]
        assert loan["reject_reason"].replace("'", "&#39;") in page.text


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"first_name": ""}, "first_name"),
        ({"last_name": "x" * 81}, "last_name"),
        ({"date_of_birth": "27/05/1990"}, "date_of_birth"),
        ({"date_of_birth": "2015-05-27"}, "date_of_birth"),
        ({"email": "ada"}, "email"),
        ({"phone_number": "12"}, "phone_number"),
        ({"amount": "4999"}, "amount"),
        ({"amount": "150000.01"}, "amount"),
        ({"amount": "-NaN"}, "amount"),
        ({"amount": "Infinity"}, "amount"),
        ({"amount": "1e999999999"}, "amount"),
        ({"tenor": "4"}, "tenor"),
        ({"consent": ""}, "consent"),
        ({"email": "loan-existing@magic.example"}, "email"),
    ],
)
async def test_mistakes_are_shown_and_nothing_is_lost(wrong: dict[str, str], field: str) -> None:
    """One mistake is told above and beside its field; what was typed stays, nothing is sent."""
    async with here() as one:
        offer = await one.offer()
        page = await send(one, f"{offer['url']}/apply", ADA | ASKED | wrong)
        assert page.status_code == 422
        assert "<title>Error: " in page.text
        labels = read(page.text)
        broken = [name for name, given in labels.fields.items() if given.get("aria-invalid")]
        assert broken == [field]
        described = labels.fields[field]["aria-describedby"] or ""
        assert f"{field}-error" in described.split()
        assert set(described.split()) <= labels.ids
        assert f'href="#{field}"' in page.text
        if field != "last_name":
            assert labels.fields["last_name"]["value"] == "Obi"
        assert (await one.loan(offer["reference"]))["loan_amount"] is None


async def test_existing_customer_logs_in_and_applies() -> None:
    """Who has a login is asked for it, then for the loan only."""
    async with here() as one:
        offer = await one.offer("LP1003", email="loan-existing@magic.example")
        page = await one.browser.get(offer["url"])
        assert heading(page) == "Log in"
        assert "Welcome back" in page.text
        assert read(page.text).fields["contact"]["value"] == "loan-existing@magic.example"
        form = await log_in(one, offer["url"], "loan-existing@magic.example")
        assert set(read(form.text).fields) == {"amount", "tenor", "consent"}
        done = await send(one, f"{offer['url']}/apply", ASKED)
        assert heading(done) == "We have your application"
        user = (await one.loan(offer["reference"]))["user"]
        assert user["email"] == "loan-existing@magic.example"


async def test_customer_with_a_loan_logs_in_and_sees_it() -> None:
    """Who has a running loan is prompted to log in, sees it, and cannot apply for another."""
    async with here() as one:
        offer = await one.offer("LP1004", phone_number="0809 990 0051")
        page = await one.browser.get(offer["url"])
        assert "You already have a loan" in page.text
        own = await log_in(one, offer["url"], "+2348099900051")
        assert heading(own) == "You have a loan with us"
        assert "Running" in own.text
        await send(one, f"{offer['url']}/apply", ASKED)
        assert (await one.loan(offer["reference"]))["status"]["can_request"] is True


async def test_pending_application_is_seen_behind_another_link() -> None:
    """An application of this week keeps its customer from a second one, and is listed."""
    async with here() as one:
        first = await one.offer("LP1001", email="ada@mail.example")
        await send(one, f"{first['url']}/apply", ADA | ASKED)
        second = await one.offer("LP1002", email="ada@mail.example")
        page = await one.browser.get(second["url"])
        assert heading(page) == "You have a loan with us"
        assert first["reference"] in page.text
        assert "Being decided" in page.text


async def test_played_customer_can_log_in_too() -> None:
    """Somebody who applied as the days went by finds the application behind the link."""
    async with here() as one:
        offer = await one.offer(email="clear@magic.example")
        await one.control("world", {"day": 12})
        assert "already have a loan" in (await one.browser.get(offer["url"])).text
        page = await log_in(one, offer["url"], "clear@magic.example")
        assert heading(page) == "Your loan is running"


async def test_customer_takes_an_application_back() -> None:
    """Cancelled by the customer: no reason, nothing owed, and no way to cancel once it runs."""
    async with here() as one:
        offer = await one.offer(email="clear@magic.example")
        await send(one, f"{offer['url']}/apply", ADA | ASKED)
        page = await send(one, f"{offer['url']}/cancel", {})
        assert heading(page) == "Your application is cancelled"
        loan = await one.loan(offer["reference"])
        assert (loan["status"]["status"], loan["reject_reason"]) == ("CANCELLED", None)
        other = await one.offer("LP1002", email="ada@mail.example")
        await send(one, f"{other['url']}/apply", ASKED | {"tenor": "7"})
        await one.control(f"loans/{other['reference']}", {"status": "RUNNING"})
        await send(one, f"{other['url']}/cancel", {})
        assert await one.status(other["reference"]) == "RUNNING"


async def test_nobody_else_cancels_or_sees_an_application() -> None:
    """Without the login, or with another's, an application is neither shown nor cancelled."""
    async with here() as one:
        offer = await one.offer(email="ada@mail.example")
        await send(one, f"{offer['url']}/apply", ADA | ASKED)
        await send(one, f"{offer['url']}/logout", {})
        stranger = await send(one, f"{offer['url']}/cancel", {})
        assert heading(stranger) == "Log in"
        assert offer["reference"] not in stranger.text.split("<footer>")[0]
        other = await log_in(one, offer["url"], "loan-existing@magic.example")
        assert heading(other) == "This link has been used"
        await send(one, f"{offer['url']}/cancel", {})
        assert await one.status(offer["reference"]) == "PENDING"


async def test_wrong_code_and_unknown_contact_do_not_log_in() -> None:
    """A wrong code says so; an unknown contact is not told apart from a known one."""
    async with here() as one:
        offer = await one.offer(email="loan-existing@magic.example")
        wrong = await send(
            one, f"{offer['url']}/login", {"contact": "loan-existing@magic.example", "code": "1"}
        )
        assert (wrong.status_code, heading(wrong)) == (422, "Enter your code")
        unknown = await log_in(one, offer["url"], "nobody-here@mail.example")
        assert (unknown.status_code, heading(unknown)) == (422, "Enter your code")
        neither = await send(one, f"{offer['url']}/login", {"contact": "x"})
        assert (neither.status_code, heading(neither)) == (422, "Log in")


async def test_second_submission_changes_nothing() -> None:
    """A form sent twice leaves the first application as it was."""
    async with here() as one:
        offer = await one.offer(email="ada@mail.example")
        await send(one, f"{offer['url']}/apply", ADA | ASKED)
        await send(one, f"{offer['url']}/apply", ADA | ASKED | {"amount": "60000"})
        assert (await one.loan(offer["reference"]))["loan_amount"] == 50_000


async def test_closed_offer_and_unknown_link() -> None:
    """An offer that was called off is closed to new customers; an unknown link is a 404."""
    async with here() as one:
        offer = await one.offer(email="ada@mail.example")
        await one.control(f"loans/{offer['reference']}", {"status": "CANCELLED"})
        assert heading(await one.browser.get(offer["url"])) == "This offer is closed"
        await send(one, f"{offer['url']}/apply", ADA | ASKED)
        assert (await one.loan(offer["reference"]))["loan_amount"] is None
        missing = await one.browser.get("/l/nosuchlink")
        assert (missing.status_code, heading(missing)) == (404, "This link is not known")


async def test_typed_text_cannot_become_html() -> None:
    """What a distributor or a customer writes is shown as text."""
    bad = '"><script>alert(1)</script>'
    async with here() as one:
        offer = await one.offer(email=bad, phone_number=bad)
        pages = [await one.browser.get(offer["url"])]
        pages.append(await send(one, f"{offer['url']}/apply", dict.fromkeys(ADA, bad) | ASKED))
        pages.append(await send(one, f"{offer['url']}/login", {"contact": f"{bad}@x.example"}))
        await send(one, f"{offer['url']}/apply", ADA | ASKED | {"first_name": bad})
        other = await one.offer(email="ada@mail.example")
        pages.append(await one.browser.get(other["url"]))
        assert "&lt;script&gt;" in pages[-1].text
        assert not any("<script" in page.text for page in pages)


async def test_odd_bytes_and_floods_are_answered() -> None:
    """Broken letters, a thousand fields and a cookie of nonsense end in a page like any other."""
    async with here() as one:
        body = rb'{"product_id":"LP1001","meta":{"email":"\ud800@mail.example"}}'
        offer = (await one.client.post("/v2/loans/initialize", content=body)).json()["data"]
        assert heading(await one.browser.get(offer["url"])) == "Apply: Salary advance"
        flood = b"&".join(b"f%d=x" % number for number in range(1000))
        kind = {"content-type": "application/x-www-form-urlencoded"}
        for raw in (flood, b"\xff=\xfe&email=\xff", b"\x00" * 50_000):
            page = await one.browser.post(f"{offer['url']}/apply", content=raw, headers=kind)
            assert page.status_code == 422
        page = await one.browser.get(offer["url"], headers={"cookie": 'borrower="\\'})
        assert page.status_code == 200


async def test_pages_are_labelled_and_locked_down() -> None:
    """Every field has a label, every hint exists; no script, a strict policy, a safe cookie."""
    async with here() as one:
        offer = await one.offer(email="ada@mail.example")
        pages = [
            await one.browser.get(offer["url"]),
            await one.browser.get(f"{offer['url']}/login"),
            await send(one, f"{offer['url']}/login", {"contact": "ada@mail.example"}),
        ]
        done = await one.browser.post(f"{offer['url']}/apply", data=ADA | ASKED)
        pages.append(await one.browser.get(offer["url"]))
    cookie = done.headers["set-cookie"]
    assert (done.status_code, "HttpOnly" in cookie, "SameSite=Lax" in cookie) == (303, True, True)
    for page in pages:
        labels = read(page.text)
        assert set(labels.fields) <= labels.labelled
        for given in labels.fields.values():
            assert set((given.get("aria-describedby") or "").split()) <= labels.ids
        assert not {"script", "img", "link", "iframe"} & set(labels.tags)
        assert 'lang="en"' in page.text
        assert 'name="viewport"' in page.text
        policy = page.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert page.headers["cache-control"] == "no-store"


async def test_pages_stay_out_of_the_ledger() -> None:
    """What customers do in their browsers is no call of the service."""
    async with here() as one:
        offer = await one.offer(email="ada@mail.example")
        await send(one, f"{offer['url']}/apply", ADA | ASKED)
        await one.browser.get("/l/nosuchlink")
        entries = (await one.control("ledger"))["entries"]
        assert [entry["operation"] for entry in entries] == ["loan_start"]
