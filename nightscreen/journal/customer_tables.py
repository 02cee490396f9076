"""The journal's tables about customers: last answers, their history, releases, policies.

Legal holds, and what was erased or purged and when, stand here too, without anything personal.

They stand on the metadata of `tables`. Nothing here reads or writes rows.
"""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Index, Integer, LargeBinary, Table, Text

from nightscreen.journal.tables import metadata

_Id = BigInteger().with_variant(Integer(), "sqlite")

customer_states = Table(
    "customer_states",
    metadata,
    Column("customer", LargeBinary, primary_key=True),
    Column("batch", Text, nullable=False),
    Column("run_id", Text, nullable=False),
    Column("first_at", BigInteger, nullable=False),
    Column("decided_at", BigInteger, nullable=False),
    Column("gone_run_id", Text),
    Column("state", LargeBinary, nullable=False),
    # holds all that tells who is gone, so that no state is touched for it
    Index("customer_states_by_batch", "batch", "customer", "gone_run_id"),
)

customer_history = Table(
    "customer_history",
    metadata,
    Column("history_id", _Id, primary_key=True, autoincrement=True),
    Column("customer", LargeBinary, nullable=False),
    Column("replaced_at", BigInteger, nullable=False),
    Column("replaced_by", Text, nullable=False),
    Column("run_id", Text, nullable=False),
    Column("decided_at", BigInteger, nullable=False),
    Column("gone_run_id", Text),
    Column("state", LargeBinary, nullable=False),
    Index("customer_history_by_customer", "customer", "replaced_at"),
    Index("customer_history_by_time", "replaced_at"),
)

customer_commits = Table(
    "customer_commits",
    metadata,
    Column("run_id", Text, primary_key=True),
    Column("batch", Text, nullable=False),
    Column("first_at", BigInteger, nullable=False),
    Column("last_at", BigInteger, nullable=False),
    Index("customer_commits_by_batch", "batch", "first_at"),
)

releases = Table(
    "releases",
    metadata,
    Column("run_id", Text, primary_key=True),
    Column("released_at", BigInteger, nullable=False),
    Column("reason", Text, nullable=False),
)

policies = Table(
    "policies",
    metadata,
    Column("policy", Text, primary_key=True),  # name@digest
    Column("text", Text, nullable=False),  # JSON, no personal data
    Column("kept_at", BigInteger, nullable=False),
)

erasures = Table(
    "erasures",
    metadata,
    Column("erasure_id", _Id, primary_key=True, autoincrement=True),
    Column("kind", Text, nullable=False),  # erasure, retention
    Column("begun_at", BigInteger, nullable=False),
    Column("finished_at", BigInteger),  # null until every file was rewritten
    Column("answers", BigInteger, nullable=False),
    Column("calls", BigInteger, nullable=False),
    Column("states", BigInteger, nullable=False),  # states, their history, and reviews
    Column("file_rows", BigInteger, nullable=False),
    Column("files", BigInteger, nullable=False),
    Column("cost_micro", BigInteger, nullable=False),  # what the tombstones hold
    Column("sightings", BigInteger, nullable=False),
)

holds = Table(
    "holds",
    metadata,
    Column("hold_id", _Id, primary_key=True, autoincrement=True),
    Column("run_id", Text, nullable=False),
    Column("held_at", BigInteger, nullable=False),
    Column("released_at", BigInteger),
    Column("reason", Text, nullable=False),
)
