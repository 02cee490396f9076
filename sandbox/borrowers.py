"""Borrowers: who has a login with the sandbox's organisation, and how they log in.

People, contacts, codes and sessions live here. Their loans are in `sandbox.loan_book`, the pages
on which they log in in `sandbox.loan_pages`.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from nightscreen.sandbox import magic
from nightscreen.sandbox.draw import Draw
from nightscreen.sandbox.lives import is_digits, person_of_bvn

if TYPE_CHECKING:
    from nightscreen.sandbox.lives import Person

RUNNING_SHARE: Final = 4
EXISTING_SHARE: Final = 16
"""Percent of contacts whose owner had a loan before, still running or long settled."""

_NATIONAL: Final = 10
_SESSIONS_KEPT: Final = 10_000


def contact_key(contact: str) -> str:
    """Write an email or a phone number in the one form under which its owner is known."""
    text = contact.strip()
    if "@" in text:
        return text.lower()
    digits = "".join(sign for sign in text if sign.isdigit())
    if len(digits) >= _NATIONAL and text.lstrip("+0123456789 ()-.") == "":
        return f"+234{digits[-_NATIONAL:]}"
    return text


def is_phone(contact: str) -> bool:
    """Tell whether a contact is a phone number in the form of `contact_key`."""
    return contact.startswith("+234") and is_digits(contact[4:], _NATIONAL)


def magic_row(email: str, phone_number: str) -> magic.Magic | None:
    """Find the magic row of a customer, by email first."""
    for contact in (email, phone_number):
        key = contact_key(contact)
        row = magic.by_karma_identity(key) if "@" in key or is_phone(key) else None
        if row:
            return row
    return None


def standing_of(contact: str) -> str:
    """Tell how a contact's owner stands with the organisation before any loan of this book.

    Args:
        contact: an email or phone number; empty is nobody.

    Returns:
        `running` with a running loan, `existing` with a login only, or empty.
    """
    key = contact_key(contact)
    if not key:
        return ""
    row = magic_row(key, "")
    if row:
        return row.loan if row.loan in ("running", "existing") else ""
    chance = Draw("borrower", key).below(100)
    if chance < RUNNING_SHARE:
        return "running"
    return "existing" if chance < RUNNING_SHARE + EXISTING_SHARE else ""


def code_of(contact: str) -> str:
    """Tell the code with which a contact's owner logs in."""
    return f"{Draw('login code', contact_key(contact)).below(10**6):06d}"


@dataclass(frozen=True, slots=True)
class Borrower:
    """One person who borrows; empty text where something is not known."""

    first_name: str
    last_name: str
    email: str
    phone_number: str

    @classmethod
    def made_up(cls, email: str, phone_number: str, about: str) -> Borrower:
        """Make up a person behind contacts; a magic contact has its own person."""
        row = magic_row(email, phone_number)
        person = person_of_bvn(row.bvn) if row else _person(email, phone_number, about)
        phone = phone_number or person.phone
        return cls(person.first_name, person.last_name, email or person.email, phone)

    def contacts(self) -> tuple[str, ...]:
        """List the keys under which this person is known."""
        keys = (contact_key(self.email), contact_key(self.phone_number))
        return tuple(key for key in keys if key)

    def as_json(self) -> dict[str, object]:
        """Return the person as a loan shows its user."""
        return {
            "first_name": self.first_name,
            "last_name": self.last_name,
            "email": self.email or None,
            "phone_number": self.phone_number or None,
        }


def _person(email: str, phone_number: str, about: str) -> Person:
    contact = contact_key(email) or contact_key(phone_number) or about
    return person_of_bvn(f"22{Draw('borrower person', contact).below(10**9):09d}")


@dataclass(slots=True)
class Borrowers:
    """Who has a login, and who is logged in."""

    registered: dict[str, Borrower] = field(default_factory=dict)
    _sessions: dict[str, Borrower] = field(default_factory=dict)

    def find(self, contact: str) -> Borrower | None:
        """Find the person with a login under a contact, or None."""
        key = contact_key(contact)
        known = self.registered.get(key)
        if known or not standing_of(key):
            return known
        email, phone = (key, "") if "@" in key else ("", key)
        return self.register(Borrower.made_up(email, phone, key))

    def register(self, borrower: Borrower) -> Borrower:
        """Give a person a login under each of their contacts; who has one keeps it."""
        for key in borrower.contacts():
            self.registered.setdefault(key, borrower)
        return borrower

    def open_session(self, borrower: Borrower) -> str:
        """Log a person in; returns the secret of the session."""
        while len(self._sessions) >= _SESSIONS_KEPT:
            self._sessions.pop(next(iter(self._sessions)))
        secret = secrets.token_urlsafe(24)
        self._sessions[secret] = borrower
        return secret

    def session(self, secret: str) -> Borrower | None:
        """Tell who is logged in with a secret."""
        return self._sessions.get(secret)

    def close_session(self, secret: str) -> None:
        """Log out."""
        self._sessions.pop(secret, None)
