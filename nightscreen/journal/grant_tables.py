"""The journal's tables of who consented: grants, links, transactions, pulls, cash flow.

They stand on the metadata of `tables`. What is personal or secret is sealed, and bound to its row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import (
    BigInteger,
    Column,
    Index,
    Integer,
    LargeBinary,
    Table,
    Text,
    or_,
    select,
)

from nightscreen.journal.tables import metadata

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from sqlalchemy import ColumnElement

    from nightscreen.config.settings import Cutoffs

_Id = BigInteger().with_variant(Integer(), "sqlite")

consent_grants = Table(
    "consent_grants",
    metadata,
    Column("grant_id", Text, primary_key=True),
    Column("customer", LargeBinary, nullable=False),  # the same in every batch name
    Column("state", Text, nullable=False),
    Column("scopes", Text, nullable=False),  # granted, separated by blanks
    Column("asked_scopes", Text, nullable=False),
    Column("granted_at", BigInteger, nullable=False),
    Column("refreshed_at", BigInteger),
    Column("ended_at", BigInteger),
    Column("reason", Text),
    Column("generation", Integer, nullable=False),  # how often there was a new access token
    Column("holder", Text),  # the process that refreshes it now, and which of its leases
    Column("lease", Text),
    Column("sealed", LargeBinary, nullable=False),  # customer id and evidence
    Column("tokens", LargeBinary),  # sealed; none once the grant has ended
    Index("consent_grants_by_customer", "customer", "granted_at"),
    Index("consent_grants_by_state", "state", "granted_at"),
)

consent_states = Table(
    "consent_states",
    metadata,
    Column("state_hash", LargeBinary, primary_key=True),
    Column("customer", LargeBinary, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("expires_at", BigInteger, nullable=False),
    Column("used_at", BigInteger),
    Column("sealed", LargeBinary, nullable=False),  # customer id and scopes
    Index("consent_states_by_customer", "customer"),
    Index("consent_states_by_expiry", "expires_at"),
)

transaction_records = Table(
    "transaction_records",
    metadata,
    Column("record_id", _Id, primary_key=True, autoincrement=True),
    Column("customer", LargeBinary, nullable=False),
    Column("record_key", LargeBinary, nullable=False),  # of its id, or of its content
    Column("content", LargeBinary, nullable=False),  # keyed hash of all it holds
    Column("problem", Text),  # why it could not be read
    Column("occurred_at", BigInteger),
    Column("first_seen_at", BigInteger, nullable=False),
    Column("run_id", Text, nullable=False),  # the pull that brought it
    Column("told_as", Text, nullable=False),  # added, modified
    Column("changed", Text),  # names of the fields that differ from the version before
    Column("ended_at", BigInteger),  # replaced, or not answered any more
    Column("ended_as", Text),  # modified, removed
    Column("ended_by", Text),  # the pull that told it
    Column("sealed", LargeBinary, nullable=False),  # the record as it came
    Column("kind", Text, nullable=False),  # a PulledKind
    Index("transaction_records_by_customer", "customer", "ended_at"),
    Index("transaction_records_by_run", "run_id", "record_id"),
    Index("transaction_records_by_end", "ended_by", "record_id"),
)

transaction_pulls = Table(
    "transaction_pulls",
    metadata,
    Column("run_id", Text, primary_key=True),
    Column("customer", LargeBinary, primary_key=True),
    Column("grant_id", Text, nullable=False),
    Column("outcome", Text, nullable=False),
    Column("standing", Integer, nullable=False),
    Column("answered_at", BigInteger),  # orders the answers about one customer
    Column("settled_at", BigInteger),
    Column("summary", Text, nullable=False),  # JSON: counts and names of fields, nothing else
    Column("kind", Text, nullable=False),  # what was pulled first
    Index("transaction_pulls_by_customer", "customer", "answered_at"),
)

cash_flows = Table(
    "cash_flows",
    metadata,
    Column("flow_id", _Id, primary_key=True, autoincrement=True),
    Column("customer", LargeBinary, nullable=False),
    Column("run_id", Text, nullable=False),  # the pull whose transactions it rests on
    Column("checked_at", BigInteger, nullable=False),  # when the service answered
    Column("sealed", LargeBinary, nullable=False),  # the figures, as JSON
    Index("cash_flows_by_customer", "customer", "checked_at"),
    Index("cash_flows_by_run", "run_id", "customer", unique=True),
)

GRANT_TABLES = (
    consent_grants,
    consent_states,
    transaction_records,
    transaction_pulls,
    cash_flows,
)


BATCH = "transactions"
"""Batch name of pulls: who is erased in it, or in every one, loses all that consent brought."""


def grants_of_person(
    anywhere: Mapping[bytes, Collection[str]],
) -> tuple[tuple[Table, ColumnElement[bool]], ...]:
    """Return which rows are a person's, by table.

    Args:
        anywhere: pseudonyms of the customer, each with the batch names that are meant.
    """
    meant = [customer for customer, batches in anywhere.items() if BATCH in batches]
    return tuple((table, table.c.customer.in_(meant)) for table in GRANT_TABLES)


def grants_before(cutoffs: Cutoffs) -> tuple[tuple[Table, ColumnElement[bool]], ...]:
    """Return which rows are too old, by table; what a live grant rests on stays.

    Records that were replaced or removed go by the period of answers, and all of those whose grants
    ended before it; grants that ended and accounts of pulls go by that of consents.
    """
    answered, ended = cutoffs.journal_answers, cutoffs.consents
    grants, records, pulls = consent_grants.c, transaction_records.c, transaction_pulls.c
    lately = select(grants.customer).where(
        or_(grants.ended_at.is_(None), grants.ended_at >= answered)
    )
    gone = (records.first_seen_at < answered) & records.customer.not_in(lately)
    flows = cash_flows.c
    newer = select(flows.customer).where(flows.checked_at >= answered)
    old = (flows.checked_at < answered) & or_(
        flows.customer.in_(newer), flows.customer.not_in(lately)
    )
    return (
        (consent_grants, grants.ended_at < ended),
        (consent_states, consent_states.c.expires_at < answered),
        (transaction_records, or_(records.ended_at < answered, gone)),
        (transaction_pulls, pulls.settled_at < ended),
        (cash_flows, old),
    )


def grant_context(grant_id: str) -> bytes:
    """Return what binds a sealed grant to its row."""
    return f"consent grant\x1f{grant_id}".encode()


def token_context(grant_id: str) -> bytes:
    """Return what binds sealed tokens to their grant."""
    return f"consent tokens\x1f{grant_id}".encode()


def link_context(state_hash: bytes) -> bytes:
    """Return what binds a sealed consent link to its row."""
    return b"consent state\x1f" + state_hash


def transaction_context(customer: bytes, record_key: bytes) -> bytes:
    """Return what binds a sealed transaction to its customer and its key."""
    return b"transaction\x1f" + customer + record_key


def flow_context(customer: bytes, run_id: str) -> bytes:
    """Return what binds sealed figures to their customer and pull."""
    return b"cash flow\x1f" + customer + run_id.encode()
