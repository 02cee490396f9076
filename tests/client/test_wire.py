"""Requests are built as the specification shows them, and hold no identifier in clear in a repr."""

from __future__ import annotations

from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nightscreen.client import wire
from nightscreen.schemas.checks import IdentityKind, Lookup
from nightscreen.schemas.errors import UsageError
from tests.client.lookups import karma

BVN = "22212345678"

LOOKUPS = (
    Lookup("bank_account", IdentityKind.NUBAN, "058-0123456789"),
    Lookup("karma", IdentityKind.EMAIL, "ada+1/x@mail.ng"),
    Lookup("ecosystem", IdentityKind.BVN, BVN),
    Lookup("selfie", IdentityKind.BVN, BVN, "https://img.example/a.jpg"),
)


def test_image_identity_is_refused_in_one_clear_line() -> None:
    """The specification does not show how an image is carried in the karma path."""
    with pytest.raises(UsageError, match="use bvn, phone, email, domain or nuban"):
        wire.lookup_request(Lookup("karma", IdentityKind.IMAGE, "aGVsbG8="))


def test_identity_that_is_none_is_refused() -> None:
    """A path without its identifier would be another address."""
    for identity in ("", "  ", ".", "..", "\udc80"):
        with pytest.raises(UsageError) as caught:
            karma(IdentityKind.BVN, identity)
        assert caught.value.__cause__ is None, identity


@given(st.text(min_size=1).filter(lambda text: bool(text.strip(". \t\r\n"))))
def test_any_identifier_survives_the_path(identity: str) -> None:
    """Percent-encoding is one segment of ASCII and comes back as it was."""
    try:
        path = karma(IdentityKind.EMAIL, identity).path
    except UsageError:
        assert not identity.isascii()
        return
    head, _, segment = path.rpartition("/")
    assert head == "/v2/verification/karma"
    assert segment.isascii()
    assert not set(segment) & set("?#/ +")
    assert unquote(segment) == identity


def test_repr_names_nobody() -> None:
    """Neither the path nor the body shows in a repr."""
    for lookup in LOOKUPS:
        shown = repr(wire.lookup_request(lookup)) + repr(lookup)
        assert BVN not in shown
        assert "0123456789" not in shown
        assert "mail.ng" not in shown
