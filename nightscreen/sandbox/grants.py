"""Grants: what customers allowed a client, and the tokens issued for it.

The life of a grant (service.md, "Access token lifecycle"): code, exchange, access tokens, refresh,
revocation; these events are counted. Callers pass the time in the sandbox's own seconds, so that a
test can move it instead of waiting.
"""

from __future__ import annotations

import secrets
from collections import Counter
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

from nightscreen.sandbox.fiction import SERVICE
from nightscreen.sandbox.test_identifiers import by_customer

DEFAULT_CLIENT_ID: Final = "sandbox-client"
LONGEST_NAME: Final = 200  # letters of a customer's username
CODE_LIFETIME_S: Final = 60.0
ACCESS_TOKEN_LIFETIME_S: Final = 300.0
TOKEN_LENGTH: Final = 254
_CODE_BYTES: Final = 30
NOBODY: Final = ""  # the customer under whom refusals of unknown codes and tokens are counted
SCOPES: Final[dict[str, str]] = SERVICE["scopes"]
"""The scopes, each in words that go on from "allow it to"."""


def is_username(text: str) -> bool:
    """Whether a customer can be called so."""
    return 0 < len(text) <= LONGEST_NAME and text.isprintable()


def is_address(text: str) -> bool:
    """Whether a text is an absolute address a browser can be sent to: no fragment, no user."""
    if not (text.isascii() and text.isprintable()) or any(sign in " \"'<>\\;,#" for sign in text):
        return False
    try:
        parts = urlsplit(text)
        host, _port = parts.hostname, parts.port
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(host) and "@" not in parts.netloc


def is_on_loopback(address: str) -> bool:
    """Whether an address leads to this machine."""
    host = urlsplit(address).hostname or "" if is_address(address) else ""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


@dataclass(slots=True)
class Grant:
    """What one customer allowed at one time."""

    customer: str  # the username
    scopes: tuple[str, ...]
    code: str
    # the address of the authorization request; None until an exchange binds one
    redirect_uri: str | None
    code_ends_at: float  # when the code expires
    code_used: bool = False
    refresh_token: str = ""  # empty before the exchange
    revoked: bool = False  # whether the refresh token is no longer valid
    accesses: dict[str, float] = field(default_factory=dict)  # token and its end, oldest first

    @property
    def state(self) -> str:
        """`waiting` for the exchange, `live` or `revoked`."""
        return "revoked" if self.revoked else "live" if self.refresh_token else "waiting"

    def live(self, now: float) -> list[str]:
        """Return the access tokens that are still valid."""
        return [token for token, ends_at in self.accesses.items() if now < ends_at]

    def expire(self, now: float) -> int:
        """Let every access token expire; returns how many were live."""
        live = self.live(now)
        self.accesses.update(dict.fromkeys(live, now))
        return len(live)

    def revoke(self, now: float, *, keep_access: bool = False) -> None:
        """Revoke the refresh token, and the access tokens too unless they are kept."""
        self.revoked = True
        if not keep_access:
            self.expire(now)


class Grants:
    """All grants since the last reset."""

    def __init__(self) -> None:
        self.counts: dict[str, Counter[str]] = {}
        self._grants: list[Grant] = []
        self._by_secret: dict[str, Grant] = {}  # by code, refresh token and access tokens

    def count(self, customer: str, what: str) -> None:
        """Count something about a customer."""
        self.counts.setdefault(customer, Counter())[what] += 1

    def allow(
        self, customer: str, scopes: tuple[str, ...], redirect_uri: str | None, now: float
    ) -> str:
        """Record a grant and return its code."""
        withheld = "transaction:list" if by_customer(customer).word == "scope-missing" else ""
        granted = tuple(scope for scope in scopes if scope != withheld)
        code = secrets.token_urlsafe(_CODE_BYTES)
        grant = Grant(customer, granted, code, redirect_uri, now + CODE_LIFETIME_S)
        self._by_secret[code] = grant
        self._grants.append(grant)
        self.count(customer, "codes")
        return code

    def customer_of(self, secret: str) -> str:
        """Return whose code or refresh token this is, or NOBODY."""
        grant = self._by_secret.get(secret)
        return NOBODY if grant is None or secret in grant.accesses else grant.customer

    def exchange(self, secret: str, redirect_uri: str, now: float) -> tuple[Grant | None, str]:
        """Exchange a code for an access token (service.md, "Endpoints", area A).

        If a code is used again, the tokens issued for it are revoked (OAuth 2.0, 4.1.2).

        Returns:
            The grant and the access token; or None and the outcome of the refusal.
        """
        grant, why = self._by_secret.get(secret), ""
        if grant is None or secret != grant.code:
            self.count(NOBODY, "refused_exchanges")
            return None, "unknown_code"
        habit = by_customer(grant.customer).word
        if grant.code_used or habit == "code-used":
            why = "used_code"
        elif now >= grant.code_ends_at or habit == "code-expired":
            why = "expired_code"
        elif grant.redirect_uri not in (None, redirect_uri):
            why = "wrong_redirect_uri"
        if grant.code_used:
            self.count(grant.customer, "replays")
            grant.revoke(now)
        if why:
            self.count(grant.customer, "refused_exchanges")
            return None, why
        grant.code_used, grant.redirect_uri = True, redirect_uri
        grant.refresh_token = _token()
        self._by_secret[grant.refresh_token] = grant
        self.count(grant.customer, "exchanges")
        return grant, self._issue(grant, now)

    def refresh(self, secret: str, redirect_uri: str, now: float) -> tuple[Grant | None, str]:
        """Issue a new access token for a refresh token, which stays valid; see `exchange`."""
        grant, why = self._by_secret.get(secret), ""
        if grant is None or secret != grant.refresh_token:
            grant, why = None, "unknown_refresh"
        elif grant.revoked or by_customer(grant.customer).word == "refresh-revoked":
            why = "revoked_refresh"
        elif grant.redirect_uri != redirect_uri:
            why = "wrong_redirect_uri"
        if grant is None or why:
            self.count(self.customer_of(secret), "refused_refreshes")
            return None, why
        self.count(grant.customer, "refreshes")
        if list(grant.accesses)[-1] in grant.live(now):
            self.count(grant.customer, "early_refreshes")
        return grant, self._issue(grant, now)

    def _issue(self, grant: Grant, now: float) -> str:
        dead = by_customer(grant.customer).word == "never-valid"
        token = _token()
        grant.accesses[token] = now + (0 if dead else ACCESS_TOKEN_LIFETIME_S)
        self._by_secret[token] = grant
        return token

    def find(self, token: str) -> Grant | None:
        """Find the grant of an access token, which may have expired."""
        grant = self._by_secret.get(token)
        return grant if grant and token in grant.accesses else None

    def of(self, customer: str | None) -> list[Grant]:
        """Return the grants of a customer, or all."""
        return [grant for grant in self._grants if customer in (None, grant.customer)]

    def as_json(self, customer: str | None, now: float) -> dict[str, object]:
        """Show grants and counts, of one customer or of all; no code and no token."""
        shown = [
            {
                "customer": grant.customer,
                "scopes": list(grant.scopes),
                "redirect_uri": grant.redirect_uri,
                "state": grant.state,
                "access_tokens": len(grant.accesses),
                "live_access_tokens": len(grant.live(now)),
            }
            for grant in self.of(customer)
        ]
        counts = {name: count for name, count in self.counts.items() if customer in (None, name)}
        return {"grants": shown, "counts": counts, "totals": sum(counts.values(), Counter())}

    def secrets_json(self) -> dict[str, list[str]]:
        """Show every code and token ever issued, for tests that search for them elsewhere."""
        grants = self._grants
        return {
            "codes": [grant.code for grant in grants],
            "access_tokens": [token for grant in grants for token in grant.accesses],
            "refresh_tokens": [grant.refresh_token for grant in grants if grant.refresh_token],
        }


def _token() -> str:
    return secrets.token_urlsafe(TOKEN_LENGTH)[:TOKEN_LENGTH]
