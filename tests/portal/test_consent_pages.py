"""The consent pages: the whole journey, and every way in which it can fail."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlencode, urlsplit

import pytest

from nightscreen.journal.verify import verify_journal
from nightscreen.operations.consent_links import ConsentLinks
from nightscreen.sandbox.grants import DEFAULT_CLIENT_ID
from nightscreen.schemas.consented import GrantState
from tests.portal.visiting import (
    CALLBACK,
    CUSTOMER,
    LIST,
    PORTAL,
    PROFILE,
    VIEW,
    Town,
    Visitor,
    heading,
)
from tests.privacy.search import Search


def changed(address: str, **parameters: str | None) -> str:
    """Return an address with parameters changed, or left out where None."""
    parts = urlsplit(address)
    given = {**dict(parse_qsl(parts.query)), **parameters}
    kept = {name: value for name, value in given.items() if value is not None}
    return parts._replace(query=urlencode(kept)).geturl()


async def test_customer_who_allows_it_is_thanked_and_the_grant_is_kept(
    town: Town, visitor: Visitor
) -> None:
    """From the link to the consents, with evidence, and the call in the journal."""
    link = town.link(LIST, PROFILE)
    told = await visitor.walk(link.token)
    assert (told.status_code, heading(told)) == (200, "Thank you, that is done")
    assert "See the payments into and out of your accounts" in told.text
    (grant,) = town.grants
    assert (grant.customer_id, grant.state) == (CUSTOMER, GrantState.LIVE)
    assert grant.scopes == (LIST, PROFILE)
    assert grant.evidence["channel"] == "portal"
    assert grant.evidence["link"] == link.reference
    assert {"redeemed_at", "redirect_uri", "username"} < set(grant.evidence)
    assert grant.tokens is not None
    assert town.calls() == [("aggregator_exchange", "answered")]
    assert verify_journal(town.journal) == []


async def test_link_works_until_it_is_used(town: Town, visitor: Visitor) -> None:
    """Mail programs open it too, with another browser and without pressing anything.

    Who did not allow it, or took longer than ten minutes on the screen, begins again with a click.
    """
    link = town.link()
    scanner = Visitor(town)
    for _ in range(3):
        assert (await scanner.open(link.token)).status_code == 200
        assert (await scanner.browser.head(f"/consent/{link.token}")).status_code == 200
    told = await visitor.walk(link.token, "deny")
    assert (told.status_code, heading(told)) == (200, "You did not allow it")
    again = re.search(r'class="button" href="([^"]+)"', told.text)
    assert again
    asked = [ConsentLinks(town.journal).resolve_link(each) for each in (again[1][9:], link.token)]
    assert asked[0] == asked[1], "the same link, whenever it was signed"
    screen = await visitor.depart(link.token)
    town.clock.forward(minutes=11)
    page = await visitor.browser.get(await visitor.decide(screen))
    assert (page.status_code, heading(page)) == (410, "That took longer than we may wait")
    assert (town.grants, town.calls()) == ([], [])
    assert heading(await visitor.walk(link.token)) == "Thank you, that is done"
    used = await visitor.open(link.token)
    assert (used.status_code, heading(used)) == (410, "This link has been used")


async def test_link_of_the_screen_itself_works_without_the_portals_page(
    town: Town, visitor: Visitor
) -> None:
    """Its state is bound to the customer, works once, and in any browser."""
    links = ConsentLinks(town.journal)
    state = links.make(CUSTOMER, [LIST], direct=True).token
    asked = {"client_id": DEFAULT_CLIENT_ID, "redirect_uri": PORTAL + CALLBACK, "state": state}
    query = urlencode({"response_type": "code", "scope": LIST, **asked})
    back = await visitor.decide(f"/data-share?{query}")
    assert heading(await Visitor(town).arrive(back)) == "Thank you, that is done"
    assert (await Visitor(town).browser.get(back)).status_code == 410
    assert [grant.customer_id for grant in town.grants] == [CUSTOMER]


STRANGE = (None, "x.y", "é", "%00", "a" * 3000)
ANSWERS: dict[str, tuple[dict[str, Any], str]] = {
    **{f"state {state!r:.9}": ({"state": state}, "") for state in STRANGE},
    **{
        f"letter {place} of the state": ({"state": place}, "We cannot tell whose answer this is")
        for place in (0, 40, -2)
    },
    **{
        f"code {code!r:.9}": ({"code": code}, "We cannot read the answer")
        for code in (None, "", "c" * 2001)
    },
}
"""What comes back changed, and the title of the page where it is always the same. A number is the
place of one letter that another takes the place of."""


async def test_what_was_never_ours_exchanges_nothing(town: Town, visitor: Visitor) -> None:
    for name, (change, title) in ANSWERS.items():
        back = await visitor.decide(await visitor.depart(town.link().token))
        given = dict(change)
        if isinstance(place := change.get("state"), int):
            letters = list(parse_qs(urlsplit(back).query)["state"][0])
            letters[place] = "A" if letters[place] != "A" else "B"
            given["state"] = "".join(letters)
        page = await visitor.arrive(changed(back, **given))
        assert (page.status_code, title in heading(page)) == (400, True), name
    assert (town.grants, town.calls()) == ([], [])


async def test_damaged_callback_and_that_of_another_browser_use_nothing_up(
    town: Town, visitor: Visitor
) -> None:
    """A code that is not UTF-8 is not sent to the service; one sent on counts for nobody.

    The same state then brings the right code, in the right browser.
    """
    back = await visitor.decide(await visitor.depart(town.link().token))
    page = await visitor.browser.get(back.replace("code=", "code=%FF"))
    assert "code=%FF" in str(page.request.url)
    assert (page.status_code, heading(page)) == (400, "We cannot tell whose answer this is")
    other = Visitor(town)
    page = await other.browser.get(back)
    assert (page.status_code, heading(page)) == (403, "This is not the browser you began in")
    await other.open(town.link(customer="CUST-2").token)
    assert (await other.browser.get(back)).status_code == 403
    assert (town.grants, town.calls()) == ([], [])
    assert heading(await visitor.arrive(back)) == "Thank you, that is done"


async def test_code_of_one_customer_never_counts_for_another(town: Town) -> None:
    """The state decides whose it is; a code put under another's state is that other's alone."""
    first, second = Visitor(town, "one@x.example"), Visitor(town, "two@x.example")
    back_1 = await first.decide(await first.depart(town.link(customer="CUST-1").token))
    back_2 = await second.decide(await second.depart(town.link(customer="CUST-2").token))
    state_2 = parse_qs(urlsplit(back_2).query)["state"][0]
    assert (await first.browser.get(changed(back_1, state=state_2))).status_code == 403
    assert town.grants == []
    await first.arrive(back_1)
    await second.arrive(back_2)
    usernames = {grant.customer_id: grant.evidence["username"] for grant in town.grants}
    assert usernames == {"CUST-1": "one@x.example", "CUST-2": "two@x.example"}


async def test_fewer_scopes_than_asked_are_told_and_kept_so(town: Town) -> None:
    visitor = Visitor(town, "scope-missing@magic.example")
    told = await visitor.walk(town.link(LIST, VIEW).token)
    assert "What you did not allow" in told.text
    (grant,) = town.grants
    assert (grant.scopes, grant.asked_scopes) == ((VIEW,), (LIST, VIEW))


ERRORS = {
    "access_denied": (200, "You did not allow it"),
    "temporarily_unavailable": (502, "The sign-in page had trouble"),
    "server_error": (502, "The sign-in page had trouble"),
    "invalid_scope": (502, "The sign-in page did not accept our request"),
    "<script>alert(1)</script>": (502, "The sign-in page did not accept our request"),
}


async def test_each_error_of_the_screen_is_told(town: Town, visitor: Visitor) -> None:
    """By what it means for the customer; nothing of it is repeated on the page."""
    for error, told in ERRORS.items():
        back = await visitor.decide(await visitor.depart(town.link().token))
        page = await visitor.arrive(changed(back, code=None, error=error))
        assert (page.status_code, heading(page)) == told, error
        assert "script" not in page.text
    assert town.calls() == []


async def test_wrong_key_is_told_as_ours_to_mend(tmp_path: Path) -> None:
    with Town(tmp_path, changes={"api_key": "another-key"}) as town:
        told = await Visitor(town).walk(town.link().token)
        assert (told.status_code, heading(told)) == (502, "Something is wrong on our side")
        assert town.grants == []


async def test_clean_page_tells_nothing_to_others(town: Town, visitor: Visitor) -> None:
    """What came is told to the browser it concerns, for a quarter of an hour.

    A link broken over two lines is unknown.
    """
    token = town.link().token
    for wrong in (token[:-1], token[1:], "nonsense", "a.b", "é", token + "x"):
        page = await visitor.open(wrong)
        assert (page.status_code, heading(page)) == (404, "We do not know this link")
    await visitor.walk(token)
    stranger = await Visitor(town).browser.get("/consent/told")
    assert (stranger.status_code, heading(stranger)) == (404, "There is nothing to tell here")
    town.clock.forward(minutes=16)
    assert (await visitor.browser.get("/consent/told")).status_code == 404


async def test_nothing_secret_is_written_anywhere(
    town: Town, visitor: Visitor, capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither log, nor page, nor HOME has customer, token, code, state or cookie in clear."""
    link = town.link()
    screen = await visitor.depart(link.token)
    back = await visitor.decide(screen)
    told = await visitor.arrive(back)
    replay = await visitor.browser.get(back)
    given = dict(parse_qsl(urlsplit(back).query))
    (grant,) = town.grants
    tokens = grant.tokens
    assert tokens is not None
    word = visitor.browser.cookies["__Host-nightscreen"]
    secrets = [tokens.access_token, tokens.refresh_token, given["code"], given["state"]]
    search = Search([*secrets, CUSTOMER, link.token, word, visitor.signs_in_as])
    log = capsys.readouterr().err
    assert log.count("portal method=") == 5
    assert search.found_in(log.encode()) == set()
    assert Search([*secrets, CUSTOMER, word]).found_in((told.text + replay.text).encode()) == set()
    for file in (town.folder / "home").rglob("*"):
        if file.is_file():
            assert search.found_in(file.read_bytes()) == set(), file
