"""The consent screen: what it shows, whom it sends where, and what it refuses on the spot."""

from __future__ import annotations

from html.parser import HTMLParser

import httpx
import pytest

from nightscreen.sandbox.grants import SCOPES, Client, is_address
from tests.sandbox.consented import CALLBACK, Journey, brought_back, wish


@pytest.fixture
def journey() -> Journey:
    """A client of a fresh sandbox."""
    return Journey()


class Page(HTMLParser):
    """Collects the elements of a page with their attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note one element."""
        self.elements.append((tag, dict(attrs)))

    def all(self, tag: str) -> list[dict[str, str | None]]:
        """Return the attributes of all elements of a kind."""
        return [attributes for name, attributes in self.elements if name == tag]


async def test_screen_says_who_asks_and_what_for_in_plain_words(journey: Journey) -> None:
    """The client's name, and for every scope its words and its name."""
    text = (await journey.screen(scope=" ".join(SCOPES))).text
    assert "Sandbox Lender" in text
    for scope, words in SCOPES.items():
        assert scope in text
        assert words[1:] in text


async def test_screen_can_be_used_without_sight_mouse_or_script(journey: Journey) -> None:
    """One heading, a label for the field, two buttons, a language, a width, and no script."""
    page = Page((await journey.screen()).text)
    assert page.all("html") == [{"lang": "en"}]
    assert len(page.all("h1")) == 1
    assert not page.all("script")
    field = page.all("input")[0]
    assert {"for": field["id"]} in page.all("label")
    assert [button["value"] for button in page.all("button")] == ["allow", "deny"]
    assert any("width=device-width" in (one.get("content") or "") for one in page.all("meta"))


async def test_pages_have_strict_headers(journey: Journey) -> None:
    """Screen, refusal and redirect forbid scripts, frames, referrers and caches."""
    answers = [
        await journey.screen(),
        await journey.screen(client_id="x"),
        await journey.choose("ada"),
    ]
    for answer in answers:
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["cache-control"] == "no-store"
    assert (
        "form-action 'self' http://127.0.0.1:8123;" in answers[0].headers["content-security-policy"]
    )


@pytest.mark.parametrize("separator", [" ", ",", "+", ", ", "%2B"])
async def test_scopes_may_be_separated_by_blank_comma_or_plus(
    journey: Journey, separator: str
) -> None:
    """Each way of writing two scopes asks for both, once."""
    scope = separator.join(("transaction:list", "profile:view", "transaction:list"))
    query = str(httpx.QueryParams(wish(scope=None))) + f"&scope={scope}"
    answer = await journey.http.post(
        f"/data-share?{query}", data={"customer": "ada", "decision": "allow"}
    )
    tokens = (await journey.exchange(brought_back(answer)["code"])).json()
    assert tokens["scope"] == "transaction:list profile:view"


@pytest.mark.parametrize(
    "changes",
    [
        {"response_type": None},
        {"response_type": "token"},
        {"client_id": "somebody-else"},
        {"client_id": None},
        {"redirect_uri": None},
        {"redirect_uri": "https://evil.example/callback"},
        {"redirect_uri": "http://127.0.0.1.evil.example/callback"},
        {"redirect_uri": "http://127.0.0.1@evil.example/callback"},
        {"redirect_uri": "javascript:alert(1)"},
        {"redirect_uri": "//127.0.0.1/callback"},
        {"redirect_uri": "http://127.0.0.1:8123/callback#part"},
        {"scope": None},
        {"scope": "transaction:list transaction:everything"},
    ],
)
async def test_a_wrong_request_ends_on_a_page(
    journey: Journey, changes: dict[str, str | None]
) -> None:
    """Neither showing nor answering a wrong request sends the customer anywhere."""
    for answer in (
        await journey.screen(**changes),
        await journey.choose("ada", "allow", **changes),
    ):
        assert answer.status_code == 400
        assert "location" not in answer.headers
        assert "This link does not work" in answer.text
    assert not len(journey.sandbox.grants)


async def test_registered_addresses_must_be_exact(journey: Journey) -> None:
    """Once addresses are registered no other is taken, not even one on loopback."""
    registered = "https://lender.example/back?from=bank"
    journey.sandbox.client = Client("acme", "Acme <b>", (registered,))
    assert (await journey.screen(client_id="acme")).status_code == 400
    shown = await journey.screen(client_id="acme", redirect_uri=registered)
    assert "Acme &lt;b&gt;" in shown.text
    answer = await journey.choose("ada", client_id="acme", redirect_uri=registered)
    assert set(brought_back(answer, registered)) == {"from", "code", "state"}


@pytest.mark.parametrize("state", ["", "plain", "a b&c=d%20é+\n\"<'", "x" * 3000, None])
async def test_state_comes_back_unchanged(journey: Journey, state: str | None) -> None:
    """Whatever the client sent as state it gets back, with a code and with a refusal."""
    for decision in ("allow", "deny"):
        told = brought_back(await journey.choose("ada", decision, state=state))
        assert told.get("state") == state


async def test_page_brings_the_request_back_as_it_came(journey: Journey) -> None:
    """The form's action, followed as a browser would, is the request itself."""
    state = "a b&amp;\"'<é"
    form = Page((await journey.screen(state=state)).text).all("form")[0]
    action = httpx.URL("http://127.0.0.1/data-share").join(form["action"] or "")
    answer = await journey.http.post(action, data={"customer": "ada", "decision": "allow"})
    assert brought_back(answer)["state"] == state


async def test_denial_says_access_denied_and_leaves_no_grant(journey: Journey) -> None:
    """A refusal carries error and state, no code."""
    told = brought_back(await journey.choose("ada", "deny"))
    assert told["error"] == "access_denied"
    assert told["state"] == "s-1"
    assert "code" not in told
    assert (await journey.counts("ada")) == {"denied": 1}


@pytest.mark.parametrize(("customer", "decision"), [("", "allow"), (" ", "allow"), ("ada", "x")])
async def test_an_unusable_answer_is_asked_again(
    journey: Journey, customer: str, decision: str
) -> None:
    """No name, or no decision: the page comes again and tells what is missing."""
    answer = await journey.choose(customer, decision)
    assert answer.status_code == 400
    page = Page(answer.text)
    field = page.all("input")[0]
    assert field["aria-invalid"] == "true"
    assert any(one.get("id") in str(field["aria-describedby"]).split() for one in page.all("p"))


@pytest.mark.parametrize("name", ["login_hint", "customer"])
async def test_request_may_say_who_is_signed_in(journey: Journey, name: str) -> None:
    """The field begins with the customer named by the request, escaped."""
    page = Page((await journey.screen(**{name: 'b"ola<x>'})).text)
    assert page.all("input")[0]["value"] == 'b"ola<x>'


async def test_nothing_of_the_request_becomes_markup(journey: Journey) -> None:
    """Scopes that nobody knows are shown as text."""
    answer = await journey.screen(scope="<script>alert(1)</script>")
    assert "<script" not in answer.text
    assert "&lt;script" in answer.text


async def test_magic_customers_can_spoil_the_state(journey: Journey) -> None:
    """One redirect carries another state, one none."""
    told = brought_back(await journey.choose("state-changed@magic.example"))
    assert told["state"] != "s-1"
    told = brought_back(await journey.choose("state-lost@magic.example"))
    assert set(told) == {"code"}


async def test_screen_stays_out_of_the_ledger_and_knows_its_methods(journey: Journey) -> None:
    """The screen is for browsers: no ledger entry, and only GET and POST."""
    await journey.screen()
    assert (await journey.http.put("/data-share", params=wish())).status_code == 405
    assert journey.sandbox.ledger.count == 0


@pytest.mark.parametrize(
    ("address", "taken"),
    [
        ("http://localhost:80/x", True),
        ("http://[::1]:9/x", True),
        ("https://127.8.9.1/", True),
        ("http://10.0.0.1/", False),
        ("http://localhost:port/", False),
        ("http://localhost/ x", False),
        ("http://localhost/\x00", False),
        ("http://localhost/\r\nset-cookie: a=b", False),
        ("ftp://localhost/", False),
    ],
)
def test_loopback_addresses_are_taken_by_default(address: str, taken: bool) -> None:
    """Without a registration any address on loopback will do, and no other."""
    assert Client().takes(address) is taken
    assert is_address(CALLBACK)
