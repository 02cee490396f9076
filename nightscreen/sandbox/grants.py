"""Grants: who may ask customers for consent, what they allowed, and the tokens that came of it.

The life of a grant (service.md, "Access token lifecycle"): code, exchange, access tokens, refresh,
revocation, and what is counted on the way. Times are the sandbox's own seconds, handed in by the
caller, so that a test moves them instead of waiting.
"""

from __future__ import annotations

import secrets
from collections import Counter
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

from nightscreen.sandbox.test_identifiers import by_customer

DEFAULT_CLIENT_ID: Final = "sandbox-client"
DEFAULT_NAME: Final = "Sandbox Lender"
LONGEST_NAME: Final = 200
"""Letters of a customer's username."""


@dataclass(frozen=True, slots=True)
class Client:
    """One registered client."""

    client_id: str = DEFAULT_CLIENT_ID  # as sent by the client
    name: str = DEFAULT_NAME  # as shown to the customer
    # the addresses registered; None takes any address on loopback
    redirect_uris: tuple[str, ...] | None = None

    def takes(self, redirect_uri: str) -> bool:
        """Return whether customers may be sent to this address; a registered one must be exact."""
        if not is_address(redirect_uri):
            return False
        if self.redirect_uris is None:
            return _is_loopback(urlsplit(redirect_uri).hostname or "")
        return redirect_uri in self.redirect_uris

    def as_json(self) -> dict[str, object]:
        """Return the registration as the control surface takes it."""
        uris = None if self.redirect_uris is None else list(self.redirect_uris)
        return {"client_id": self.client_id, "name": self.name, "redirect_uris": uris}


def is_address(text: str) -> bool:
    """Whether a text is an absolute address a browser can be sent to: no fragment, no user."""
    plain_text = text.isascii() and text.isprintable()
    if not plain_text or any(sign in " \"'<>\\;," for sign in text):
        return False
    try:
        parts = urlsplit(text)
        host, _port = parts.hostname, parts.port
    except ValueError:
        return False
    plain = "@" not in parts.netloc and "#" not in text
    return parts.scheme in ("http", "https") and bool(host) and plain


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


SCOPES: Final = {
    "transaction:list": "see the list of all your transactions",
    "transaction:view": "see one transaction in detail",
    "transaction:update": "change the note on a transaction",
    "bank_account:list": "see the list of your bank accounts",
    "bank_account:view": "see one bank account in detail",
    "bank_account:add": "add a bank account",
    "bank_account:update": "change a bank account",
    "bank_account:delete": "remove a bank account",
    "bank_account:sync": "synchronise a bank account with the bank",
    "profile:view": "see your profile: name, email address and phone number",
}
"""The scopes, each in words that go on from "allow it to"."""

CODE_LIFETIME_S: Final = 60.0
ACCESS_TOKEN_LIFETIME_S: Final = 300.0
TOKEN_LENGTH: Final = 254
_CODE_BYTES: Final = 30
NOBODY: Final = ""
"""The customer under whom refusals of unknown codes and tokens are counted."""


class Refused(Exception):  # noqa: N818 - an answer of the service, not an error of the sandbox
    """A code or a token that is not accepted.

    Attributes:
        word: the outcome in one word, for the ledger.
        text: the message to the caller.
    """

    def __init__(self, word: str, text: str) -> None:
        super().__init__(text)
        self.word = word
        self.text = text


@dataclass(slots=True)
class Access:
    """One access token, and when it expires."""

    token: str
    ends_at: float

    def is_live(self, now: float) -> bool:
        """Return whether the token still opens anything."""
        return now < self.ends_at


@dataclass(slots=True)
class Grant:
    """What one customer allowed at one time."""

    customer: str  # the username
    scopes: tuple[str, ...]
    client_id: str  # who was allowed
    # the address of the authorization request; None until an exchange binds one
    redirect_uri: str | None
    code_ends_at: float  # when the code expires
    code_used: bool = False
    refresh_token: str = ""  # empty before the exchange
    revoked: bool = False  # whether the refresh token is good no more
    accesses: list[Access] = field(default_factory=list)  # oldest first

    @property
    def state(self) -> str:
        """`waiting` for the exchange, `live` or `revoked`."""
        if self.revoked:
            return "revoked"
        return "live" if self.refresh_token else "waiting"

    def end(self, now: float, *, keep_access: bool = False) -> None:
        """Revoke the refresh token, and the access tokens too unless they are kept."""
        self.revoked = True
        for access in () if keep_access else self.accesses:
            access.ends_at = min(access.ends_at, now)


class Grants:
    """All grants since the last reset."""

    def __init__(self) -> None:
        self.counts: dict[str, Counter[str]] = {}
        self._grants: list[Grant] = []
        self._by_code: dict[str, Grant] = {}
        self._by_refresh: dict[str, Grant] = {}
        self._by_access: dict[str, tuple[Grant, Access]] = {}

    def __len__(self) -> int:
        return len(self._grants)

    def count(self, customer: str, what: str) -> None:
        """Count something about a customer."""
        self.counts.setdefault(customer, Counter())[what] += 1

    def allow(
        self,
        customer: str,
        scopes: tuple[str, ...],
        *,
        client_id: str,
        redirect_uri: str | None,
        now: float,
    ) -> str:
        """Write a grant down and return its code."""
        row = by_customer(customer)
        granted = tuple(scope for scope in scopes if row is None or scope != row.withheld)
        grant = Grant(customer, granted, client_id, redirect_uri, now + CODE_LIFETIME_S)
        code = secrets.token_urlsafe(_CODE_BYTES)
        self._by_code[code] = grant
        self._grants.append(grant)
        self.count(customer, "codes")
        return code

    def customer_of(self, secret: str) -> str:
        """Return whose code or refresh token this is, or NOBODY."""
        grant = self._by_code.get(secret) or self._by_refresh.get(secret)
        return grant.customer if grant else NOBODY

    def exchange(
        self, secret: str, redirect_uri: str, *, client_id: str, now: float
    ) -> tuple[Grant, Access]:
        """Exchange a code for tokens (service.md, "Endpoints", area A).

        A code that is used again takes back the tokens that came of it (OAuth 2.0, 4.1.2).

        Raises:
            Refused: unknown, used or expired code, another client or another address.
        """
        grant = self._by_code.get(secret)
        if grant is None:
            self.count(NOBODY, "refused_exchanges")
            raise Refused("unknown_code", "Invalid authorization code")
        row = by_customer(grant.customer)
        why = None
        if grant.code_used or (row and row.code == "used"):
            why = Refused("used_code", "Authorization code has already been used")
        elif now >= grant.code_ends_at or (row and row.code == "expired"):
            why = Refused("expired_code", "Authorization code has expired")
        elif grant.client_id != client_id:
            why = Refused("foreign_code", "Invalid authorization code")
        elif grant.redirect_uri not in (None, redirect_uri):
            why = _other_address()
        if grant.code_used:
            self.count(grant.customer, "replays")
            grant.end(now)
        if why:
            self.count(grant.customer, "refused_exchanges")
            raise why
        grant.code_used, grant.redirect_uri = True, redirect_uri
        grant.refresh_token = _token()
        self._by_refresh[grant.refresh_token] = grant
        self.count(grant.customer, "exchanges")
        return grant, self._issue(grant, now)

    def refresh(self, secret: str, redirect_uri: str, *, now: float) -> tuple[Grant, Access]:
        """Issue a new access token for a refresh token, which stays good.

        Raises:
            Refused: unknown or revoked refresh token, or another address.
        """
        grant = self._by_refresh.get(secret)
        if grant is None:
            self.count(self.customer_of(secret), "refused_refreshes")
            raise Refused("unknown_refresh", "Invalid refresh token")
        row = by_customer(grant.customer)
        why = None
        if grant.revoked or (row and row.refresh == "revoked"):
            why = Refused("revoked_refresh", "Refresh token has been revoked")
        elif grant.redirect_uri != redirect_uri:
            why = _other_address()
        if why:
            self.count(grant.customer, "refused_refreshes")
            raise why
        self.count(grant.customer, "refreshes")
        if grant.accesses[-1].is_live(now):
            self.count(grant.customer, "early_refreshes")
        return grant, self._issue(grant, now)

    def _issue(self, grant: Grant, now: float) -> Access:
        row = by_customer(grant.customer)
        lifetime_s = 0 if row and row.dead else ACCESS_TOKEN_LIFETIME_S
        access = Access(_token(), now + lifetime_s)
        grant.accesses.append(access)
        self._by_access[access.token] = grant, access
        return access

    def find(self, token: str) -> tuple[Grant, Access] | None:
        """Find the grant and the record of an access token."""
        return self._by_access.get(token)

    def expire(self, customer: str | None, now: float) -> int:
        """Expire the live access tokens of a customer, or of all; returns how many there were."""
        accesses = (access for grant in self._of(customer) for access in grant.accesses)
        live = [access for access in accesses if access.is_live(now)]
        for access in live:
            access.ends_at = now
        return len(live)

    def revoke(self, customer: str | None, now: float, *, keep_access: bool = False) -> int:
        """Revoke the grants of a customer, or of all; returns how many there were."""
        live = [grant for grant in self._of(customer) if not grant.revoked]
        for grant in live:
            grant.end(now, keep_access=keep_access)
        return len(live)

    def _of(self, customer: str | None) -> list[Grant]:
        return [grant for grant in self._grants if customer is None or grant.customer == customer]

    def as_json(self, customer: str | None, now: float) -> dict[str, object]:
        """Show grants and counts, of one customer or of all; no code and no token."""
        shown = [
            {
                "customer": grant.customer,
                "scopes": list(grant.scopes),
                "client_id": grant.client_id,
                "redirect_uri": grant.redirect_uri,
                "state": grant.state,
                "access_tokens": len(grant.accesses),
                "live_access_tokens": sum(access.is_live(now) for access in grant.accesses),
            }
            for grant in self._of(customer)
        ]
        counts = {
            name: dict(count) for name, count in self.counts.items() if customer in (None, name)
        }
        whole: Counter[str] = Counter()
        for count in counts.values():
            whole.update(count)
        return {"grants": shown, "counts": counts, "totals": dict(whole)}

    def secrets_json(self) -> dict[str, list[str]]:
        """Show every code and token ever issued, for tests that search for them elsewhere."""
        return {
            "codes": list(self._by_code),
            "access_tokens": list(self._by_access),
            "refresh_tokens": list(self._by_refresh),
        }


def _other_address() -> Refused:
    text = "redirect_uri does not match the authorization request"
    return Refused("wrong_redirect_uri", text)


def _token() -> str:
    return secrets.token_urlsafe(TOKEN_LENGTH)[:TOKEN_LENGTH]
