"""Check whose an answer is: compare the identifiers it names with the one asked about.

The specification says that a record names the identifier looked up. A record that names another one
is another person's. An asterisk matches anything; a zero is a zero.
"""

from __future__ import annotations

import re

from nightscreen.schemas.checks import IdentityKind

_BVN_IN_TEXT = re.compile(r"(?<![0-9*])(?:22[0-9*]{9}|[0-9*]{11}(?= not found))(?![0-9*])")
"""Every BVN begins with 22; a number said to be not found is one whatever it begins with."""

_GAPS = str.maketrans("", "", " -().\u00a0")
_COUNTRY = re.compile(r"(?:\+|00)?234(?=[0-9*]{10,11}$)")
_NUBAN = re.compile(r"(?:([0-9]{3}|[0-9]{5,6})[ /:-]*)?([0-9*]{10})")
_DOMAIN = re.compile(r"(?:https?://)?(?:www\.)?([^/:]+)(?::[0-9]+)?\.?/?")


def bvn_named(asked: str, message: str) -> bool | None:
    """Return whether a message names the BVN asked about; None if it names none.

    A miss has no record, but the ecosystem's message begins with the BVN (recorded). If another
    kind of identifier was asked about, a BVN in the message belongs to another person unless the
    identifier is there too.
    """
    named = _BVN_IN_TEXT.findall(message)
    if not asked or not named:
        return None
    return asked.casefold() in message.casefold() or any(_covers(each, asked) for each in named)


def names_the_same(kind: IdentityKind, asked: str, named: str | None) -> bool:
    """Return whether a record names the identifier asked about, or none at all."""
    if not named:
        return True
    if kind is IdentityKind.NUBAN and (account := _NUBAN.fullmatch(named.strip())):
        return same_account(asked, account[1], account[2])
    return _covers(_plain(kind, named), _plain(kind, asked))


def _plain(kind: IdentityKind, identity: str) -> str:
    """Return an identifier without separators and prefixes."""
    text = identity.strip().casefold()
    match kind:
        case IdentityKind.BVN:
            return text.translate(_GAPS)
        case IdentityKind.PHONE:
            return _COUNTRY.sub("", text.translate(_GAPS)).removeprefix("0")
        case IdentityKind.DOMAIN:
            bare = _DOMAIN.fullmatch(text)
            return bare[1].rstrip(".") if bare else text
        case _:
            return text


def _covers(named: str, asked: str) -> bool:
    """Return whether a text, whose asterisks match anything, is the one asked about."""
    if "*" not in named:
        return named == asked
    parts = (re.escape(part) for part in re.split(r"\*+", named))
    return re.fullmatch(".*".join(parts), asked) is not None


def same_account(asked: str, bank_code: str | None, number: str | None) -> bool:
    """Return whether an account is the one asked about, by its number and its bank if known.

    Args:
        asked: such as `058-0123456789`; the bank may be missing.
        bank_code: a code of any scheme in `data/banks.csv`; an unknown one is not compared.
        number: the account's number.
    """
    from nightscreen.values.banks import bank_table  # noqa: PLC0415 - it loads Arrow, which naming a check must not

    our_code, _, our_number = asked.rpartition("-")
    if number and not _covers(number.translate(_GAPS), our_number):
        return False
    by_code = bank_table().by_code
    our_bank, their_bank = by_code(our_code), by_code((bank_code or "").strip())
    return our_bank is None or their_bank is None or our_bank == their_bank
