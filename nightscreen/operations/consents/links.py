"""Links that lead a customer to consent, and the `state` of each redirect to the consent screen.

A link may be opened as often as anybody likes until a consent was kept with it: mail programs open
links too. Each redirect from it has its own state, which works once, for ten minutes, and in the
same browser. Both are signed and contain nothing about the customer; their customer is sealed in
the vault. Pages and addresses are made elsewhere, and codes are exchanged elsewhere.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from itsdangerous import BadSignature, Signer

from nightscreen.journal.keyset import LINKS_LAST, link_keys
from nightscreen.journal.vault import Vault
from nightscreen.schemas.clock import span_micros
from nightscreen.schemas.errors import ConsentStateError, JournalError, UsageError
from nightscreen.values.identifiers import judge_customer_id

if TYPE_CHECKING:
    from collections.abc import Iterable

    from nightscreen.journal import Journal

DEPARTURE = timedelta(minutes=10)
"""How long a customer may take on the consent screen."""
USUAL = timedelta(days=7)
LONGEST = LINKS_LAST
_LONGEST_TOKEN = 1000
_REFERENCE_DIGITS = 12
_STATE = b"consent departure"


class Refusal(StrEnum):
    """Why a link or a state does not work."""

    TAMPERED = "tampered"
    UNKNOWN = "unknown"
    USED = "used"
    EXPIRED = "expired"
    OTHER_BROWSER = "other_browser"
    OTHER_CUSTOMER = "other_customer"


@dataclass(frozen=True, slots=True)
class Link:
    """A new link.

    Attributes:
        token: the secret in its address; anybody who has it can consent in the customer's name.
        reference: its name in logs and evidence, which opens nothing.
        expires_at: instant from which it no longer works, microseconds.
    """

    token: str = field(repr=False)
    reference: str
    expires_at: int


@dataclass(frozen=True, slots=True)
class Asked:
    """The consent a customer is asked for.

    Attributes:
        link: the link's id; empty where the customer was sent to the consent screen itself.
        reference: names link or state in logs and evidence.
    """

    customer_id: str = field(repr=False)
    scopes: tuple[str, ...]
    link: str = field(repr=False)
    reference: str


class Signing:
    """Signs and verifies short texts for one purpose each, with the journal's key of links.

    All processes of a journal agree on it; links in somebody's mail survive its rotation until they
    end, unless it was rotated at once.

    Args:
        journal: whose key it is.
        purpose: texts signed for another purpose are refused.
    """

    def __init__(self, journal: Journal, purpose: str) -> None:
        self._journal = journal
        self._purpose = purpose

    def _signers(self) -> list[Signer]:
        """Return a signer for each key that is accepted; the first signs."""
        return [
            Signer(
                hmac.digest(key, b"nightscreen portal signing key", "sha256"),
                salt=self._purpose,
                key_derivation="hmac",
                digest_method=staticmethod(hashlib.sha256),
            )
            for key in link_keys(self._journal)
        ]

    def sign(self, text: str) -> str:
        """Return a text with its signature."""
        return self._signers()[0].sign(text).decode("ascii")

    def verified(self, signed: str) -> str | None:
        """Return the text that was signed; None if it was not, or was changed since.

        A signature in another spelling (its last letter holds bits that count for nothing) is none.
        """
        if len(signed) > _LONGEST_TOKEN or not signed.isascii():
            return None
        for signer in self._signers():
            try:
                text = signer.unsign(signed)
            except BadSignature:
                continue
            if hmac.compare_digest(signer.sign(text), signed.encode()):
                return text.decode("ascii")
        return None

    def mark(self, text: str) -> str:
        """Return the signature of a text alone."""
        return self._signers()[0].get_signature(text).decode("ascii")


class ConsentLinks:
    """Makes links and states, and judges those that come back."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._vault = Vault.of(journal)
        self._links = Signing(journal, "consent link")
        self._states = Signing(journal, "consent state")

    def make(self, customer_id: str, scopes: Iterable[str], valid_for: timedelta) -> Link:
        """Return a new link of the portal.

        Raises:
            UsageError: there is no customer or scope, the customer's id is an identifier in
                disguise, or the link would be valid for too long or not at all.
        """
        link_id, expires_at = self._open(customer_id, scopes, valid_for)
        return Link(self._links.sign(link_id), reference_of(link_id), expires_at)

    def direct(self, customer_id: str, scopes: Iterable[str], valid_for: timedelta) -> Link:
        """Return a state for the consent screen's own address, bound to no browser.

        Raises:
            UsageError: as for `make`.
        """
        state_id, expires_at = self._open(customer_id, scopes, valid_for)
        state = self._sealed({"state": state_id})
        return Link(state, reference_of(state_id), expires_at)

    def _open(
        self, customer_id: str, scopes: Iterable[str], valid_for: timedelta
    ) -> tuple[str, int]:
        if not timedelta(0) < valid_for <= LONGEST:
            raise UsageError(f"a consent link is valid for at most {LONGEST.days} days")
        disguised = judge_customer_id(
            customer_id, bvn=None, bank_code=None, account=None, phone=None
        )
        if disguised is not None:
            raise UsageError(disguised.hint)
        opened = self._vault.open_state(customer_id, scopes, valid_for)
        return opened, self._journal.clock() + span_micros(valid_for)

    def look(self, token: str) -> Asked | Refusal:
        """Return what a link asks for, and leave it as it is."""
        link_id = self._links.verified(token)
        if link_id is None:
            return Refusal.TAMPERED
        try:
            customer_id, scopes = self._vault.look_at_state(link_id)
        except ConsentStateError as refused:
            return Refusal(refused.why.value)
        return Asked(customer_id, scopes, link_id, reference_of(link_id))

    def depart(self, asked: Asked, browser: str) -> str:
        """Return the state of a redirect that begins now in a browser."""
        state_id = self._vault.open_state(asked.customer_id, asked.scopes, DEPARTURE)
        return self._sealed({"state": state_id, "link": asked.link, "browser": _digest(browser)})

    def come_back(self, state: str, browser: str | None) -> Asked | Refusal:
        """Use a state up and return what the customer was asked for.

        A state that comes back in another browser is refused and not used up: the right one may
        still use it. A state is also refused if its link has led to a consent meanwhile.

        Args:
            state: as it came back.
            browser: the word that identifies this browser; None if it sent none.
        """
        held = self._unsealed(state)
        if held is None:
            return Refusal.TAMPERED
        if "browser" in held:
            browser_digest = "" if browser is None else _digest(browser)
            if not hmac.compare_digest(held["browser"], browser_digest):
                return Refusal.OTHER_BROWSER
        return self._take(held)

    def read_by_hand(self, state: str, customer_id: str) -> Asked | Refusal:
        """Use a state up that an operator took from an address, in no browser of the customer's.

        One that belongs to another customer than the operator says is refused and not used up.
        """
        held = self._unsealed(state)
        return Refusal.TAMPERED if held is None else self._take(held, customer_id)

    def _take(self, held: dict[str, Any], of: str = "") -> Asked | Refusal:
        link = held.get("link", "")
        try:
            if link and self._is_used(link):
                return Refusal.USED
            if of and self._vault.look_at_state(held["state"])[0] != of:
                return Refusal.OTHER_CUSTOMER
            customer_id, scopes = self._vault.take_state(held["state"])
        except ConsentStateError as refused:
            return Refusal(refused.why.value)
        return Asked(customer_id, scopes, link, reference_of(link or held["state"]))

    def _is_used(self, link: str) -> bool:
        """Return whether a link has led to a consent that is still valid."""
        try:
            self._vault.look_at_state(link)
        except ConsentStateError as refused:
            return refused.why.value == Refusal.USED
        return False

    def use_up(self, asked: Asked) -> None:
        """Let a link work no more, now that a consent was kept with it."""
        if not asked.link:
            return
        try:
            self._vault.take_state(asked.link)
        except ConsentStateError:
            return  # it has ended meanwhile, which is as good

    def again(self, asked: Asked) -> str:
        """Return the token of a link once more; empty where there was none."""
        return self._links.sign(asked.link) if asked.link else ""

    def _sealed(self, held: dict[str, str]) -> str:
        plain = json.dumps(held, sort_keys=True).encode()
        sealed = self._journal.sealer.seal(plain, _STATE)
        return self._states.sign(base64.urlsafe_b64encode(sealed).decode("ascii").rstrip("="))

    def _unsealed(self, state: str) -> dict[str, Any] | None:
        text = self._states.verified(state)
        if text is None:
            return None
        try:
            sealed = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
            plain = self._journal.sealer.open(sealed, _STATE)
        except (JournalError, ValueError):
            return None
        held: dict[str, Any] = json.loads(plain)
        return held


def reference_of(opaque: str) -> str:
    """Return what names a link or a state without opening it."""
    return hashlib.sha256(f"consent\x1f{opaque}".encode()).hexdigest()[:_REFERENCE_DIGITS]


def _digest(browser: str) -> str:
    return hashlib.sha256(f"browser\x1f{browser}".encode()).hexdigest()
