"""The vault: consents, sealed tokens, one refresh at a time, links that work once."""

from __future__ import annotations

import pickle
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import select

from nightscreen.files.keys import encode_key
from nightscreen.journal.copying import back_up, restore
from nightscreen.journal.engine import reading, writing
from nightscreen.journal.keyset import rotate_key
from nightscreen.journal.schema import consent_grants, consent_states
from nightscreen.journal.vault import REPLACED, GrantState, Vault
from nightscreen.journal.verify import verify_journal
from nightscreen.schemas.clock import MICROS
from nightscreen.schemas.consented import TokenAnswer
from nightscreen.schemas.errors import ConsentStateError, StateRefusal, UsageError

if TYPE_CHECKING:
    from nightscreen.journal import Journal
    from tests.storage.conftest import Place

LIST, VIEW = "transaction:list", "transaction:view"
ACCESS, REFRESH = "acc-Zx81-secret", "ref-Yw72-secret"


def token(
    access: str = ACCESS, refresh: str | None = REFRESH, scope: str | None = LIST
) -> TokenAnswer:
    """Return a token answer of the service."""
    return TokenAnswer(access_token=access, username="ada.o", refresh_token=refresh, scope=scope)


def kept(vault: Vault, customer: str = "C-1", **changes: str | None) -> str:
    """Keep a consent and return the grant's id."""
    answer = token(**changes)  # type: ignore[arg-type]  # names and types are token's
    return vault.keep(
        customer, answer, asked_scopes=(LIST, VIEW), evidence={"channel": "portal"}
    ).grant_id


def test_grant_comes_back_as_it_was_kept(journal: Journal) -> None:
    """Customer, scopes, evidence and tokens survive; only what was granted is allowed."""
    vault = Vault.of(journal)
    grant_id = kept(vault)
    (grant,) = vault.grants(GrantState.LIVE, LIST)
    assert (grant.grant_id, grant.customer_id, grant.scopes) == (grant_id, "C-1", (LIST,))
    assert grant.asked_scopes == (LIST, VIEW)
    assert grant.evidence == {"channel": "portal", "username": "ada.o"}
    assert grant.allows(LIST)
    assert not grant.allows(VIEW)
    tokens = vault.tokens(grant_id)
    assert tokens is not None
    assert (tokens.access_token, tokens.refresh_token, tokens.generation) == (ACCESS, REFRESH, 1)
    assert vault.grants(scope=VIEW) == []


def test_more_than_was_asked_for_is_never_granted(journal: Journal) -> None:
    """An answer may name other scopes; those not asked for are not usable, and none means all."""
    vault = Vault.of(journal)
    wide = vault.keep("C-1", token(scope=f"{LIST} profile:view"), asked_scopes=[LIST], evidence={})
    silent = vault.keep("C-2", token(scope=None), asked_scopes=[LIST], evidence={})
    assert wide.scopes == silent.scopes == (LIST,)


def test_new_consent_replaces_the_live_one_and_keeps_its_history(journal: Journal) -> None:
    """A customer has one live grant; the one before lapses, and its tokens go."""
    vault = Vault.of(journal)
    first, second = kept(vault), kept(vault, access="other")
    newest, older = vault.history("C-1")
    assert (newest.grant_id, older.grant_id) == (second, first)
    assert (older.state, older.reason) == (GrantState.LAPSED, REPLACED)
    assert vault.tokens(first) is None
    assert [each.grant_id for each in vault.grants(GrantState.LIVE)] == [second]
    found = vault.find("C-1")
    assert found is not None
    assert found.grant_id == second
    assert vault.find("nobody") is None


def test_refresh_keeps_the_old_refresh_token_where_the_answer_brings_none(journal: Journal) -> None:
    """The specification's refresh answer omits it; one that is brought takes its place."""
    vault = Vault.of(journal)
    kept(vault)
    (grant,) = vault.grants()
    second = vault.refreshed(grant, token("access-2", None))
    third = vault.refreshed(grant, token("access-3", "refresh-3"))
    assert second is not None
    assert third is not None
    assert (second.refresh_token, second.generation) == (REFRESH, 2)
    assert (third.access_token, third.refresh_token, third.generation) == (
        "access-3",
        "refresh-3",
        3,
    )
    assert vault.tokens(grant.grant_id) == third
    (again,) = vault.grants()
    assert again.refreshed_at is not None


def test_ended_grant_keeps_no_token_and_takes_none(journal: Journal) -> None:
    """After a lapse or a revocation tokens are gone, and a late refresh changes nothing."""
    vault = Vault.of(journal)
    kept(vault)
    kept(vault, "C-2")
    one, two = vault.grants()
    assert vault.lapse(one, "refused")
    assert not vault.lapse(one, "again")
    assert vault.revoke("C-2", "customer asked")
    assert not vault.revoke("C-2", "customer asked")
    assert vault.refreshed(one, token("late")) is None
    assert vault.take_lease(two.grant_id) is None
    assert [each.state for each in vault.grants()] == [GrantState.LAPSED, GrantState.REVOKED]
    with reading(journal.engine) as connection:
        assert set(connection.execute(select(consent_grants.c.tokens)).scalars()) == {None}


def test_one_refresh_at_a_time_across_processes(place: Place) -> None:
    """While one process has the right to refresh, neither it nor another gets it again."""
    one, two = place.open(), place.open()
    ours, theirs = Vault.of(one), Vault.of(two)
    grant_id = kept(ours)
    lease = ours.take_lease(grant_id)
    assert lease is not None
    assert ours.take_lease(grant_id) is None
    assert theirs.take_lease(grant_id) is None
    ours.give_back(grant_id, "another lease")
    assert theirs.take_lease(grant_id) is None
    ours.give_back(grant_id, lease)
    assert theirs.take_lease(grant_id) is not None


def test_right_to_refresh_dies_with_its_process(place: Place) -> None:
    """A process that ends without giving it back keeps nobody waiting."""
    one, two = place.open(), place.open()
    grant_id = kept(Vault.of(one))
    assert Vault.of(one).take_lease(grant_id) is not None
    one.close()
    for _ in range(200):  # a database server takes a moment to notice
        if lease := Vault.of(two).take_lease(grant_id):
            break
        time.sleep(0.05)
    assert lease is not None


def test_of_many_who_want_to_refresh_one_may(journal: Journal) -> None:
    """Thirty-two tasks that try at once: one lease."""
    vault = Vault.of(journal)
    grant_id = kept(vault)
    with ThreadPoolExecutor(8) as pool:
        leases = list(pool.map(lambda _: vault.take_lease(grant_id), range(32)))
    assert sum(each is not None for each in leases) == 1


def test_consent_link_works_once(journal: Journal) -> None:
    """Of many who use a link one succeeds; the others are told that it was used."""
    vault = Vault.of(journal)
    state = vault.open_state("C-1", [LIST], timedelta(hours=1))
    assert vault.look_at_state(state) == ("C-1", (LIST,))

    def take(_: int) -> StateRefusal | tuple[str, tuple[str, ...]]:
        try:
            return vault.take_state(state)
        except ConsentStateError as error:
            return error.why

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(take, range(16)))
    assert found.count(("C-1", (LIST,))) == 1
    assert found.count(StateRefusal.USED) == 15


def test_consent_link_expires_and_a_strange_one_is_unknown(place: Place) -> None:
    """Late and made-up links are told apart, in an error that can cross processes."""
    vault = Vault.of(place.open())
    state = vault.open_state("C-1", [LIST], timedelta(minutes=10))
    place.clock.now += 600 * MICROS
    with pytest.raises(ConsentStateError, match="expired") as late:
        vault.take_state(state)
    assert pickle.loads(pickle.dumps(late.value)).why is StateRefusal.EXPIRED  # noqa: S301 - ours
    with pytest.raises(ConsentStateError) as strange:
        vault.take_state("never-given")
    assert strange.value.why is StateRefusal.UNKNOWN


def test_links_long_past_are_forgotten(place: Place) -> None:
    """What expired a month ago goes when a new link is made."""
    journal = place.open()
    vault = Vault.of(journal)
    vault.open_state("C-1", [LIST], timedelta(minutes=10))
    place.clock.now += 31 * 86_400 * MICROS
    vault.open_state("C-2", [LIST], timedelta(minutes=10))
    with reading(journal.engine) as connection:
        assert len(connection.execute(select(consent_states.c.state_hash)).all()) == 1


@pytest.mark.parametrize("scopes", [[], None])
def test_useless_links_and_grants_are_refused(journal: Journal, scopes: list[str] | None) -> None:
    """A link without scope or customer, or a grant without a token, is a mistake of usage."""
    vault = Vault.of(journal)
    with pytest.raises(UsageError):
        vault.open_state("" if scopes is None else "C-1", scopes or [], timedelta(1))
    with pytest.raises(UsageError):
        vault.keep("C-1", TokenAnswer(), asked_scopes=[LIST], evidence={})


def test_no_token_nor_customer_lies_in_clear(sqlite_place: Place) -> None:
    """Neither values nor the database's files show a token, a link or a customer's id."""
    journal = sqlite_place.open()
    vault = Vault.of(journal)
    kept(vault, "CUSTOMER-77812")
    state = vault.open_state("CUSTOMER-77812", [LIST], timedelta(1))
    (grant,) = vault.grants()
    said = f"{grant!r} {vault.tokens(grant.grant_id)!r} {vault!r}"
    files = b"".join(
        path.read_bytes() for path in Path(sqlite_place.home).glob("journal*") if path.is_file()
    )
    for secret in (ACCESS, REFRESH, state, "CUSTOMER-77812", "ada.o"):
        assert secret not in said
        assert secret.encode() not in files


def test_rotation_reseals_and_verification_opens_everything(journal: Journal) -> None:
    """Under a new key grants, tokens and links still open; damage to a token is reported."""
    vault = Vault.of(journal)
    grant_id = kept(vault)
    state = vault.open_state("C-1", [LIST], timedelta(1))
    rotate_key(journal)
    assert verify_journal(journal) == []
    tokens = vault.tokens(grant_id)
    assert tokens is not None
    assert tokens.access_token == ACCESS
    assert vault.take_state(state)[0] == "C-1"
    with writing(journal.engine) as connection:
        (body,) = connection.execute(select(consent_grants.c.tokens)).scalars()
        torn = bytes(body[:-1]) + bytes([body[-1] ^ 1])
        connection.execute(consent_grants.update().values(tokens=torn))
    assert verify_journal(journal) == [
        "1 sealed values of the table consent_grants do not open under the data key"
    ]


def test_backup_brings_grants_along(place: Place, tmp_path: Path) -> None:
    """A restored journal honours the same consents."""
    journal = place.open()
    kept(Vault.of(journal))
    back_up(journal, tmp_path / "backup")
    key = encode_key(journal.lender_key).decode()
    restore(tmp_path / "backup", tmp_path / "other", configured=key)
    with place.open(home=tmp_path / "other", url="", data_key=key) as other:
        (grant,) = Vault.of(other).grants()
        tokens = Vault.of(other).tokens(grant.grant_id)
    assert tokens is not None
    assert tokens.refresh_token == REFRESH
