"""Consents in the journal: sealed tokens, one refresh at a time, links that work once."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from nightscreen.journal import Journal
from nightscreen.journal.consents import REPLACED, Consents
from nightscreen.operations.consent_links import AskedConsent, ConsentLinks, Refusal
from nightscreen.schemas.consented import GrantState, TokenAnswer, Tokens
from tests.journal.conftest import Place

LIST, VIEW = "transaction:list", "transaction:view"
ACCESS, REFRESH = "acc-Zx81-secret", "ref-Yw72-secret"


def token(
    access: str = ACCESS, refresh: str | None = REFRESH, scope: str | None = LIST
) -> TokenAnswer:
    return TokenAnswer(access_token=access, username="ada.o", refresh_token=refresh, scope=scope)


def kept(consents: Consents, customer: str = "C-1", **changes: str | None) -> str:
    answer = token(**changes)  # type: ignore[arg-type]  # names and types are token's
    return consents.keep(
        customer, answer, asked_scopes=(LIST, VIEW), evidence={"channel": "portal"}
    ).grant_id


def tokens_of(consents: Consents, grant_id: str) -> Tokens | None:
    grant = consents.find(grant_id)
    return None if grant is None else grant.tokens


@pytest.mark.parametrize(
    ("given", "scopes", "extra"),
    [
        ({}, None, {}),
        ({"scope": None}, None, {}),
        ({"scope": ""}, (), {}),
        ({"scope": f"{LIST},{VIEW} {LIST}"}, (LIST, VIEW), {}),
        ({"scope": [LIST]}, (), {"scope": [LIST]}),
    ],
    ids=["absent", "null", "blank", "named", "unreadable"],
)
def test_scopes_of_a_token(
    given: dict[str, object], scopes: tuple[str, ...] | None, extra: dict[str, object]
) -> None:
    """Absent means all that was asked; what is there and names none grants nothing, and is kept."""
    answer = TokenAnswer.read({"access_token": "t", **given})
    assert (answer.scopes, answer.extra) == (scopes, extra)


def test_new_consent_replaces_the_live_one_and_keeps_its_history(journal: Journal) -> None:
    """A customer has one live grant; the one before lapses, and its tokens go."""
    consents = Consents(journal)
    first, second = kept(consents), kept(consents, access="other")
    newest, older = consents.history("C-1")
    assert (newest.grant_id, older.grant_id) == (second, first)
    assert (older.state, older.reason) == (GrantState.LAPSED, REPLACED)
    assert tokens_of(consents, first) is None
    assert [each.grant_id for each in consents.grants(GrantState.LIVE)] == [second]
    assert consents.history("nobody") == []


def test_refresh_keeps_the_old_refresh_token_where_the_answer_brings_none(journal: Journal) -> None:
    """The specification's refresh answer omits it; one that is brought takes its place."""
    consents = Consents(journal)
    kept(consents)
    (grant,) = consents.grants()
    second = consents.refreshed(grant.grant_id, token("access-2", None))
    assert second is not None
    assert (second.refresh_token, second.generation) == (REFRESH, 2)
    third = consents.refreshed(grant.grant_id, token("access-3", "refresh-3"))
    assert third == Tokens(access_token="access-3", refresh_token="refresh-3", generation=3)
    assert tokens_of(consents, grant.grant_id) == third
    (again,) = consents.grants()
    assert again.refreshed_at is not None


def test_ended_grant_keeps_no_token_and_takes_none(journal: Journal) -> None:
    """After a lapse or a revocation tokens are gone, and a late refresh changes nothing."""
    consents = Consents(journal)
    kept(consents)
    kept(consents, "C-2")
    one, two = consents.grants()
    assert consents.lapse(one.grant_id, "refused")
    assert not consents.lapse(one.grant_id, "again")
    assert consents.revoke("C-2", "customer asked")
    assert not consents.revoke("C-2", "customer asked")
    assert consents.refreshed(one.grant_id, token("late")) is None
    assert consents.take_lease(two.grant_id) is None
    assert [each.state for each in consents.grants()] == [GrantState.LAPSED, GrantState.REVOKED]
    assert {each.tokens for each in consents.grants()} == {None}


def test_one_refresh_at_a_time_across_processes(place: Place) -> None:
    """While one process has the right to refresh, neither it nor another gets it again.

    A process that ends without giving it back keeps nobody waiting.
    """
    one, two = place.open(), place.open()
    ours, theirs = Consents(one), Consents(two)
    grant_id = kept(ours)
    lease = ours.take_lease(grant_id)
    assert lease is not None
    assert ours.take_lease(grant_id) is None
    assert theirs.take_lease(grant_id) is None
    ours.give_back(grant_id, "another lease")
    assert theirs.take_lease(grant_id) is None
    ours.give_back(grant_id, lease)
    assert theirs.take_lease(grant_id) is not None
    two.close()
    for _ in range(200):  # a database server takes a moment to notice
        if lease := ours.take_lease(grant_id):
            break
        time.sleep(0.05)
    assert lease is not None


def test_a_redirect_works_once(journal: Journal) -> None:
    """Of many who bring it back one succeeds; the others are told that it was used."""
    links = ConsentLinks(journal)
    state = links.make("C-1", [LIST], direct=True).token
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: links.consume_state(state, None), range(16)))
    assert found.count(Refusal.USED) == 15
    (asked,) = [each for each in found if isinstance(each, AskedConsent)]
    assert (asked.customer_id, asked.scopes) == ("C-1", (LIST,))


def test_no_token_nor_customer_lies_in_clear(sqlite_place: Place) -> None:
    """Neither values nor the database's files show a token, a link or a customer's id."""
    journal = sqlite_place.open()
    consents = Consents(journal)
    kept(consents, "CUSTOMER-77812")
    link = ConsentLinks(journal).make("CUSTOMER-77812", [LIST])
    (grant,) = consents.grants()
    said = f"{grant!r} {tokens_of(consents, grant.grant_id)!r} {consents!r}"
    files = b"".join(
        path.read_bytes() for path in Path(sqlite_place.home).glob("journal*") if path.is_file()
    )
    for secret in (ACCESS, REFRESH, link.token, "CUSTOMER-77812", "ada.o"):
        assert secret not in said
        assert secret.encode() not in files
