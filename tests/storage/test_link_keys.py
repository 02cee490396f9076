"""The key that signs links: apart from pseudonyms, replaced without them, gone when it must be."""

from __future__ import annotations

import hashlib
import hmac
from datetime import timedelta

from itsdangerous import Signer

from nightscreen.journal.keyset import link_keys, rotate_link_key
from nightscreen.operations.consents.links import AskedConsent, ConsentLinks, Refusal
from tests.storage.conftest import Place

WEEK = timedelta(days=7)


def test_links_are_signed_with_no_key_of_pseudonyms(place: Place) -> None:
    """Whoever learns the one cannot make the other."""
    journal = place.open()
    token = ConsentLinks(journal).make("C1", ["transaction:list"], WEEK).token
    keys = link_keys(journal)
    assert len(keys) == 1
    assert keys[0] != journal.pseudonyms.key
    derived = hmac.digest(journal.pseudonyms.key, b"nightscreen portal signing key", "sha256")
    forged = Signer(
        derived,
        salt="consent link",
        key_derivation="hmac",
        digest_method=staticmethod(hashlib.sha256),
    ).sign(token.rpartition(".")[0])
    assert ConsentLinks(journal).look(forged.decode()) is Refusal.TAMPERED
    assert isinstance(ConsentLinks(journal).look(token), AskedConsent)


def test_a_new_key_lets_links_go_on_or_ends_them_at_once(place: Place) -> None:
    """Links in somebody's mail work on after a rotation; after a leak none does."""
    journal = place.open()
    pseudonym = journal.pseudonyms.subject("bvn", "22212345678")
    links = ConsentLinks(journal)
    token = links.make("C1", ["transaction:list"], WEEK).token
    rotate_link_key(journal)
    newer = links.make("C1", ["transaction:list"], WEEK).token
    assert isinstance(links.look(token), AskedConsent)
    assert isinstance(links.look(newer), AskedConsent)
    rotate_link_key(journal, at_once=True)
    assert links.look(token) is Refusal.TAMPERED
    assert links.look(newer) is Refusal.TAMPERED
    assert journal.pseudonyms.subject("bvn", "22212345678") == pseudonym
