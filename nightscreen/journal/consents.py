"""Consents in the journal: grants with their tokens, and the cash flow that depends on them.

A customer has at most one live grant; a new consent replaces it, and the old one stays as history.
`operations/` decides which operation needs which scope, and when a token is refreshed.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from nightscreen.journal.records import Records
from nightscreen.journal.schema import records
from nightscreen.journal.storage import Part
from nightscreen.schemas.consented import CashFigures, Grant, GrantState, Tokens
from nightscreen.schemas.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from typing import Any

    from sqlalchemy import ColumnElement, Connection

    from nightscreen.journal.storage import Storage
    from nightscreen.schemas.consented import TokenAnswer

REPLACED = "replaced"  # the reason of a grant that ended because its customer consented again


class Consents(Part):
    """Reads and writes grants."""

    @property
    def _records(self) -> Records[Grant]:
        return Records(self.journal, Grant)

    def customer(self, customer_id: str) -> bytes:
        """Return the pseudonym of a customer, the same in every batch."""
        return self.journal.pseudonyms.customers_anywhere([customer_id])

    def keep(
        self,
        customer_id: str,
        token: TokenAnswer,
        *,
        asked_scopes: Iterable[str],
        evidence: Mapping[str, Any],
    ) -> Grant:
        """Save a new consent; it replaces the customer's live one, if any.

        The granted scopes are those in the answer, but only requested ones; an answer without
        scopes grants all that were requested.

        Raises:
            UsageError: there is no customer, or no access token.
        """
        if not customer_id or not token.access_token:
            raise UsageError("a grant needs a customer id and an access token")
        asked = tuple(dict.fromkeys(asked_scopes))
        grant = Grant(
            customer=self.customer(customer_id),
            customer_id=customer_id,
            at=self._clock(),
            scopes=_granted(token.scopes, asked),
            asked_scopes=asked,
            evidence={**evidence, **({"username": token.username} if token.username else {})},
            tokens=Tokens(
                access_token=token.access_token,
                refresh_token=token.refresh_token or "",
                generation=1,
            ),
        )
        with self._database.writing() as connection:
            of_customer = records.c.customer == grant.customer
            self._end(connection, of_customer, GrantState.LAPSED, REPLACED)
            self._records.insert(connection, [grant])
        return grant

    def grants(self, state: GrantState | None = None, scope: str | None = None) -> list[Grant]:
        """Return grants, oldest first, if given only those in a state and with a scope."""
        found = self._records.all(state=None if state is None else state.value)
        return [each for each in found if scope is None or scope in each.scopes]

    def live(self, customer: bytes, scope: str) -> Grant | None:
        """Return a customer's live grant if it has a scope, by pseudonym."""
        found = self._records.of_customers([customer])
        return next((each for each in found if each.allows(scope)), None)

    def history(self, customer_id: str) -> list[Grant]:
        """Return all of a customer's grants, newest first."""
        found = self._records.of_customers([self.customer(customer_id)])
        return sorted(found, key=lambda each: (each.at, each.ended_at is None), reverse=True)

    def find(self, grant_id: str) -> Grant | None:
        """Return a grant by its id."""
        return self._records.find(grant_id)

    def lapse(self, grant_id: str, reason: str) -> bool:
        """End a live grant that the service refuses, with its tokens; return if it was live."""
        with self._database.writing() as connection:
            return self._end(connection, records.c.key == grant_id, GrantState.LAPSED, reason)

    def revoke(self, customer_id: str, reason: str) -> bool:
        """End a customer's live grant and delete its tokens; return whether there was one."""
        with self._database.writing() as connection:
            of_customer = records.c.customer == self.customer(customer_id)
            return self._end(connection, of_customer, GrantState.REVOKED, reason)

    def _end(
        self, connection: Connection, which: ColumnElement[bool], state: GrantState, reason: str
    ) -> bool:
        now = self._clock()
        gone = {"state": state, "ended_at": now, "reason": reason}
        gone |= dict.fromkeys(("tokens", "holder", "lease"))
        live = self._records.read(connection, which, records.c.state == GrantState.LIVE.value)
        for each in live:
            self._records.update(connection, [each.model_copy(update=gone)], now)
        return bool(live)

    # --- refreshing ---

    def take_lease(self, grant_id: str) -> str | None:
        """Take the right to refresh a grant; None if another task or process has it.

        It ends with its process, with `give_back` or with `refreshed`. A grant that is not live
        gives none.
        """
        holders, lease = self._holders, secrets.token_hex(8)
        with self._database.writing() as connection:
            grant = self._live(connection, grant_id)
            if grant is None or (grant.holder and holders.alive(grant.holder, connection)):
                return None
            self._change(connection, grant, holder=holders.name, lease=lease)
        return lease

    def give_back(self, grant_id: str, lease: str) -> None:
        """Release the right to refresh, unless it is no longer held."""
        with self._database.writing() as connection:
            grant = self._live(connection, grant_id)
            if grant is not None and grant.lease == lease:
                self._change(connection, grant, holder=None, lease=None)

    def refreshed(self, grant_id: str, token: TokenAnswer) -> Tokens | None:
        """Save a new access token, and the old refresh token if the answer has none.

        Returns:
            The current tokens; None if the grant has ended meanwhile.

        Raises:
            UsageError: there is no access token.
        """
        if not token.access_token:
            raise UsageError("a refresh without an access token is not stored")
        with self._database.writing() as connection:
            grant = self._live(connection, grant_id)
            if grant is None or grant.tokens is None:
                return None
            tokens = Tokens(
                access_token=token.access_token,
                refresh_token=token.refresh_token or grant.tokens.refresh_token,
                generation=grant.tokens.generation + 1,
            )
            self._change(
                connection,
                grant,
                tokens=tokens,
                refreshed_at=self._clock(),
                scopes=_granted(token.scopes, grant.scopes),
                holder=None,
                lease=None,
            )
        return tokens

    def _live(self, connection: Connection, grant_id: str) -> Grant | None:
        found = self._records.read(
            connection, records.c.key == grant_id, records.c.state == GrantState.LIVE.value
        )
        return next(iter(found), None)

    def _change(self, connection: Connection, grant: Grant, **values: object) -> None:
        self._records.update(connection, [grant.model_copy(update=values)], self._clock())


def _granted(named: tuple[str, ...] | None, asked: tuple[str, ...]) -> tuple[str, ...]:
    """Return the scopes that may be used: those granted, if they were requested."""
    if not named:
        return asked
    return tuple(scope for scope in named if scope in asked) if asked else named


# --- cash flow ---


def keep_figures(journal: Storage, found: list[CashFigures]) -> None:
    """Save customers' cash flow, unless newer figures are saved."""

    def newer(known: CashFigures, new: CashFigures) -> CashFigures:
        return new if new.at >= known.at else known

    Records(journal, CashFigures).merge(found, newer, journal.clock())


def live_figures(
    journal: Storage, customers: Collection[bytes], since: int = 0
) -> dict[bytes, CashFigures]:
    """Return the cash flow of customers whose live consent covers all scopes that it needs.

    Grants are read last, so that nothing is returned for a customer who has just revoked. Figures
    from before `since`, microseconds, are too old.
    """
    figures = Records(journal, CashFigures).of_customers(customers)
    found = {each.customer: each for each in figures if each.at >= since}
    grants = Records(journal, Grant).of_customers(found)
    return {
        each.customer: found[each.customer]
        for each in grants
        if all(each.allows(scope) for scope in found[each.customer].scopes)
    }
