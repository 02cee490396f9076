"""The vault: what customers consented to, their tokens sealed, and the links that lead to consent.

A customer has at most one live grant; a new consent replaces it and history stays. Tokens are never
in clear outside a `Tokens` value. `operations/` decides which operation needs which scope, and when
a token is refreshed; the portal signs links.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from sqlalchemy import delete, insert, select, update

from nightscreen.journal.engine import reading, writing
from nightscreen.journal.schema import (
    GRANT,
    LINK,
    TOKENS,
    consent_grants,
    consent_states,
)
from nightscreen.schemas.clock import DAY_MICROS, span_micros
from nightscreen.schemas.errors import ConsentStateError, StateRefusal, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import timedelta

    from sqlalchemy import ColumnElement, Connection, Row

    from nightscreen.journal import Journal
    from nightscreen.schemas.consented import TokenAnswer

REPLACED = "replaced"
"""The reason of a grant that ended because its customer consented again."""
STATES_KEPT = 30 * DAY_MICROS
"""How long a link is remembered after its end, so that a late customer learns why."""
_STATE_BYTES = 24


class GrantState(StrEnum):
    """The state of a grant."""

    LIVE = "live"
    LAPSED = "lapsed"
    """The service does not honour it any more, or it was replaced: consent is asked for again."""
    REVOKED = "revoked"
    """The customer took it back, or the lender gave it up."""


@dataclass(frozen=True, slots=True)
class Grant:
    """A customer's consent; instants in microseconds.

    Attributes:
        customer: pseudonym of the customer, the same in every batch name.
        customer_id: as the lender gives it.
        scopes: what was granted, and nothing else may be used (authentication 4).
        asked_scopes: what the customer was asked for.
        ended_at: when it lapsed or was revoked.
        reason: why it did.
        evidence: how consent was given: channel, redirect address, username and the like.
    """

    grant_id: str
    customer: bytes
    customer_id: str = field(repr=False)
    scopes: tuple[str, ...]
    asked_scopes: tuple[str, ...]
    state: GrantState
    granted_at: int
    refreshed_at: int | None
    ended_at: int | None
    reason: str | None
    evidence: dict[str, Any] = field(repr=False)

    def allows(self, scope: str) -> bool:
        """Return whether a scope was granted, and still is."""
        return self.state is GrantState.LIVE and scope in self.scopes


@dataclass(frozen=True, slots=True)
class Tokens:
    """The tokens of a live grant; `generation` counts the access tokens there were."""

    access_token: str = field(repr=False)
    refresh_token: str = field(repr=False)
    generation: int


@dataclass(frozen=True, slots=True)
class Vault:
    """Keeps grants and consent links in an open journal."""

    _journal: Journal = field(repr=False)

    @classmethod
    def of(cls, journal: Journal) -> Vault:
        """Return the vault of an open journal."""
        return cls(journal)

    def customer(self, customer_id: str) -> bytes:
        """Return the pseudonym of a customer, the same in every batch name."""
        return self._journal.pseudonyms.customers_anywhere([customer_id])

    # --- grants ---

    def keep(
        self,
        customer_id: str,
        token: TokenAnswer,
        *,
        asked_scopes: Iterable[str],
        evidence: Mapping[str, Any],
    ) -> Grant:
        """Keep a new consent; it takes the place of the customer's live one, if any.

        Granted is what the answer says, but never more than was asked for; an answer that names no
        scope grants what was asked for.

        Raises:
            UsageError: there is no customer, or no access token.
        """
        if not customer_id or not token.access_token:
            raise UsageError("a grant needs a customer id and an access token")
        asked = tuple(dict.fromkeys(asked_scopes))
        now = self._journal.clock()
        grant = Grant(
            grant_id=secrets.token_hex(12),
            customer=self.customer(customer_id),
            customer_id=customer_id,
            scopes=_granted(token.scope, asked),
            asked_scopes=asked,
            state=GrantState.LIVE,
            granted_at=now,
            refreshed_at=None,
            ended_at=None,
            reason=None,
            evidence={**evidence, **({"username": token.username} if token.username else {})},
        )
        tokens = Tokens(token.access_token, token.refresh_token or "", 1)
        with writing(self._journal.engine) as connection:
            of_customer = consent_grants.c.customer == grant.customer
            self._end(connection, of_customer, GrantState.LAPSED, REPLACED)
            connection.execute(insert(consent_grants), self._row(grant, tokens))
        return grant

    def _row(self, grant: Grant, tokens: Tokens) -> dict[str, Any]:
        held = {"customer_id": grant.customer_id, "evidence": grant.evidence}
        return {
            "grant_id": grant.grant_id,
            "customer": grant.customer,
            "state": grant.state.value,
            "scopes": " ".join(grant.scopes),
            "asked_scopes": " ".join(grant.asked_scopes),
            "granted_at": grant.granted_at,
            "generation": tokens.generation,
            "sealed": self._seal(held, GRANT.context(grant.grant_id)),
            "tokens": self._sealed_tokens(grant.grant_id, tokens),
        }

    def grants(self, state: GrantState | None = None, scope: str | None = None) -> list[Grant]:
        """Return grants, oldest first; only those in a state, and with a scope, where given."""
        query = select(*_SEEN).order_by(consent_grants.c.granted_at, consent_grants.c.grant_id)
        if state is not None:
            query = query.where(consent_grants.c.state == state.value)
        with reading(self._journal.engine) as connection:
            rows = connection.execute(query).all()
        wanted = (row for row in rows if scope is None or scope in row.scopes.split())
        return [self._grant(row) for row in wanted]

    def live_of(self, customer: bytes, scope: str) -> list[Grant]:
        """Return the live grant of a customer's pseudonym, in a list, where it has a scope."""
        query = select(*_SEEN).where(
            consent_grants.c.customer == customer,
            consent_grants.c.state == GrantState.LIVE.value,
        )
        with reading(self._journal.engine) as connection:
            rows = connection.execute(query).all()
        return [self._grant(row) for row in rows if scope in row.scopes.split()]

    def find(self, customer_id: str) -> Grant | None:
        """Return a customer's newest grant, whatever its state."""
        return next(iter(self.history(customer_id)), None)

    def history(self, customer_id: str) -> list[Grant]:
        """Return all of a customer's grants, newest first."""
        query = (
            select(*_SEEN)
            .where(consent_grants.c.customer == self.customer(customer_id))
            .order_by(
                consent_grants.c.granted_at.desc(), consent_grants.c.ended_at.is_(None).desc()
            )
        )
        with reading(self._journal.engine) as connection:
            return [self._grant(row) for row in connection.execute(query).all()]

    def tokens(self, grant_id: str) -> Tokens | None:
        """Return the tokens of a grant; None if it is not live any more."""
        query = select(consent_grants.c.tokens, consent_grants.c.generation).where(_live(grant_id))
        with reading(self._journal.engine) as connection:
            row = connection.execute(query).first()
        return None if row is None or row.tokens is None else self._tokens(grant_id, row)

    def lapse(self, grant: Grant, reason: str) -> bool:
        """End a live grant that the service refuses; its tokens go. Return whether it was live."""
        with writing(self._journal.engine) as connection:
            of_grant = consent_grants.c.grant_id == grant.grant_id
            return self._end(connection, of_grant, GrantState.LAPSED, reason)

    def revoke(self, customer_id: str, reason: str) -> bool:
        """End a customer's live grant; its tokens go. Return whether there was one."""
        with writing(self._journal.engine) as connection:
            of_customer = consent_grants.c.customer == self.customer(customer_id)
            return self._end(connection, of_customer, GrantState.REVOKED, reason)

    def _end(
        self,
        connection: Connection,
        which: ColumnElement[bool],
        state: GrantState,
        reason: str,
    ) -> bool:
        done = connection.execute(
            update(consent_grants)
            .where(which, consent_grants.c.state == GrantState.LIVE.value)
            .values(
                state=state.value,
                ended_at=self._journal.clock(),
                reason=reason,
                tokens=None,
                holder=None,
                lease=None,
            )
        )
        return bool(done.rowcount)

    # --- refreshing ---

    def take_lease(self, grant_id: str) -> str | None:
        """Take the right to refresh a grant; None if another task or process has it.

        It dies with its process, and is given back by `give_back` or by `refreshed`. A grant that
        is not live gives none.
        """
        lease = secrets.token_hex(8)
        holders = self._journal.holders
        with writing(self._journal.engine) as connection:
            query = select(consent_grants.c.holder).where(_live(grant_id))
            row = connection.execute(query).first()
            if row is None or (row.holder and holders.alive(row.holder, connection)):
                return None
            values = {"holder": holders.name, "lease": lease}
            connection.execute(update(consent_grants).where(_live(grant_id)).values(values))
        return lease

    def give_back(self, grant_id: str, lease: str) -> None:
        """Give the right to refresh back; one that was not held any more is left alone."""
        with writing(self._journal.engine) as connection:
            connection.execute(
                update(consent_grants)
                .where(consent_grants.c.grant_id == grant_id, consent_grants.c.lease == lease)
                .values(holder=None, lease=None)
            )

    def refreshed(self, grant: Grant, token: TokenAnswer) -> Tokens | None:
        """Keep a new access token, and the old refresh token if the answer has none.

        Returns:
            The tokens as they are now; None where the grant has ended meanwhile.

        Raises:
            UsageError: there is no access token.
        """
        if not token.access_token:
            raise UsageError("a refresh without an access token is not stored")
        with writing(self._journal.engine) as connection:
            query = select(
                consent_grants.c.tokens, consent_grants.c.generation, consent_grants.c.scopes
            ).where(_live(grant.grant_id))
            row = connection.execute(query).first()
            if row is None or row.tokens is None:
                return None
            old = self._tokens(grant.grant_id, row)
            fresh = Tokens(
                token.access_token, token.refresh_token or old.refresh_token, old.generation + 1
            )
            values = {
                "tokens": self._sealed_tokens(grant.grant_id, fresh),
                "generation": fresh.generation,
                "refreshed_at": self._journal.clock(),
                "scopes": " ".join(_granted(token.scope, tuple(row.scopes.split()))),
                "holder": None,
                "lease": None,
            }
            connection.execute(update(consent_grants).where(_live(grant.grant_id)).values(values))
        return fresh

    # --- consent links ---

    def open_state(self, customer_id: str, scopes: Iterable[str], valid_for: timedelta) -> str:
        """Return the id of a new consent link; only its hash is kept, and it works once.

        Raises:
            UsageError: there is no customer, or no scope.
        """
        wanted = list(dict.fromkeys(scopes))
        if not customer_id or not wanted:
            raise UsageError("a consent link needs a customer id and at least one scope")
        state_id = secrets.token_urlsafe(_STATE_BYTES)
        hashed, now = _hashed(state_id), self._journal.clock()
        row = {
            "state_hash": hashed,
            "customer": self.customer(customer_id),
            "created_at": now,
            "expires_at": now + span_micros(valid_for),
            "sealed": self._seal(
                {"customer_id": customer_id, "scopes": wanted}, LINK.context(hashed)
            ),
        }
        with writing(self._journal.engine) as connection:
            past = consent_states.c.expires_at < now - STATES_KEPT
            connection.execute(delete(consent_states).where(past))
            connection.execute(insert(consent_states), row)
        return state_id

    def look_at_state(self, state_id: str) -> tuple[str, tuple[str, ...]]:
        """Return customer and scopes of a consent link that would work, and leave it as it is.

        Raises:
            ConsentStateError: it is unknown, used or expired; `why` is the reason.
        """
        with reading(self._journal.engine) as connection:
            return self._good_state(connection, _hashed(state_id))

    def take_state(self, state_id: str) -> tuple[str, tuple[str, ...]]:
        """Use a consent link up and return customer and scopes; of two who try, one succeeds.

        Raises:
            ConsentStateError: it is unknown, used or expired; `why` is the reason.
        """
        hashed = _hashed(state_id)
        with writing(self._journal.engine) as connection:
            found = self._good_state(connection, hashed)
            connection.execute(
                update(consent_states)
                .where(consent_states.c.state_hash == hashed)
                .values(used_at=self._journal.clock())
            )
        return found

    def _good_state(self, connection: Connection, hashed: bytes) -> tuple[str, tuple[str, ...]]:
        query = select(consent_states).where(consent_states.c.state_hash == hashed)
        row = connection.execute(query).first()
        if row is None:
            raise ConsentStateError(StateRefusal.UNKNOWN)
        if row.used_at is not None:
            raise ConsentStateError(StateRefusal.USED)
        if self._journal.clock() >= row.expires_at:
            raise ConsentStateError(StateRefusal.EXPIRED)
        held = self._open(row.sealed, LINK.context(hashed))
        return str(held["customer_id"]), tuple(held["scopes"])

    # --- sealing ---

    def _grant(self, row: Row[Any]) -> Grant:
        held = self._open(row.sealed, GRANT.context(row.grant_id))
        return Grant(
            grant_id=row.grant_id,
            customer=bytes(row.customer),
            customer_id=held["customer_id"],
            scopes=tuple(row.scopes.split()),
            asked_scopes=tuple(row.asked_scopes.split()),
            state=GrantState(row.state),
            granted_at=row.granted_at,
            refreshed_at=row.refreshed_at,
            ended_at=row.ended_at,
            reason=row.reason,
            evidence=held["evidence"],
        )

    def _sealed_tokens(self, grant_id: str, tokens: Tokens) -> bytes:
        pair = [tokens.access_token, tokens.refresh_token]
        return self._seal(pair, TOKENS.context(grant_id))

    def _tokens(self, grant_id: str, row: Row[Any]) -> Tokens:
        access, refresh = self._open(row.tokens, TOKENS.context(grant_id))
        return Tokens(access, refresh, row.generation)

    def _seal(self, value: object, context: bytes) -> bytes:
        return self._journal.sealer.seal(json.dumps(value, sort_keys=True).encode(), context)

    def _open(self, sealed: bytes, context: bytes) -> Any:  # noqa: ANN401 - what was sealed
        return json.loads(self._journal.sealer.open(bytes(sealed), context))


_SEEN = [column for column in consent_grants.c if column.name not in ("tokens", "holder", "lease")]


def _live(grant_id: str) -> ColumnElement[bool]:
    return (consent_grants.c.grant_id == grant_id) & (
        consent_grants.c.state == GrantState.LIVE.value
    )


def _granted(granted: str | None, asked: tuple[str, ...]) -> tuple[str, ...]:
    """Return the scopes that may be used: those granted, if they were requested."""
    named = tuple(dict.fromkeys((granted or "").replace(",", " ").split()))
    if not named:
        return asked
    return tuple(scope for scope in named if scope in asked) if asked else named


def _hashed(state_id: str) -> bytes:
    return hashlib.sha256(state_id.encode("utf-8", "replace")).digest()
