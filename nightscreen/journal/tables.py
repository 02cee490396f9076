"""The journal's tables, in SQLAlchemy Core, the same on SQLite and PostgreSQL.

Money is whole micro-naira, instants are microseconds since 1970 in UTC, identifiers are keyed
pseudonyms of sixteen bytes, answers are sealed. Nothing here reads or writes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    delete,
    insert,
    select,
    text,
)

from nightscreen.files.sealing import SUBJECT_BYTES

if TYPE_CHECKING:
    from sqlalchemy import Connection

metadata = MetaData()

TOMBSTONE = bytes(SUBJECT_BYTES)
"""Stands where the pseudonym of an erased person's call stood."""

_Id = BigInteger().with_variant(Integer(), "sqlite")

meta = Table(
    "meta",
    metadata,
    Column("name", Text, primary_key=True),
    Column("value", Text, nullable=False),
)

data_keys = Table(
    "data_keys",
    metadata,
    Column("number", Integer, primary_key=True),
    Column("wrapped_by", Text, primary_key=True),
    Column("wrapped", LargeBinary, nullable=False),
    Column("made_at", BigInteger, nullable=False),
)
"""Each data key, sealed under the lender's key whose fingerprint `wrapped_by` is. After a rotation
both keys of the lender open it, until no run is left that began under the old one."""


def read_meta(connection: Connection) -> dict[str, str]:
    """Return the journal's own facts by name."""
    rows = connection.execute(select(meta.c.name, meta.c.value)).all()
    return {row.name: row.value for row in rows}


def put_meta(connection: Connection, name: str, value: str | None) -> None:
    """Write one of the journal's own facts; None removes it."""
    connection.execute(delete(meta).where(meta.c.name == name))
    if value is not None:
        connection.execute(insert(meta), {"name": name, "value": value})


runs = Table(
    "runs",
    metadata,
    Column("run_id", Text, primary_key=True),
    Column("flow", Text, nullable=False),
    Column("batch", Text, nullable=False),
    Column("purpose", Text, nullable=False),
    Column("state", Text, nullable=False),  # running, completed, stopped, test_mode
    Column("stop_reason", Text),
    Column("holder", Text),
    Column("started_at", BigInteger, nullable=False),
    Column("finished_at", BigInteger),
    Column("input_digest", Text, nullable=False),
    Column("folder", Text, nullable=False),
    Column("cap_micro", BigInteger),
    Column("parameters", Text, nullable=False),  # JSON, no personal data
    Column("report", Text),  # JSON, no personal data
    Index("runs_by_batch", "batch", "started_at"),
)

calls = Table(
    "calls",
    metadata,
    Column("call_id", _Id, primary_key=True, autoincrement=True),
    Column("run_id", Text, nullable=False),
    Column("check", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("subject", LargeBinary, nullable=False),
    Column("purpose", Text, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("holder", Text, nullable=False),
    Column("consent_reference", Text),
    Column("intent_at", BigInteger, nullable=False),
    Column("reserved_micro", BigInteger, nullable=False),
    Column("state", Text, nullable=False),  # intent, answered, not_sent, not_charged, ...
    Column("sent_at", BigInteger),
    Column("settled_at", BigInteger),
    Column("trouble", Text),
    Column("status", Integer),
    Column("outcome", Text),
    Column("cost_micro", BigInteger),
    Column("balance_micro", BigInteger),
    Column("final", Boolean, nullable=False, default=False),
    Index("calls_by_subject", "subject", "check"),
    Index("calls_by_run", "run_id", "check"),
)
UNSETTLED = text("calls.state IN ('intent', 'in_doubt')")
"""Condition of the index of unsettled calls; a query must repeat it word for word to use it."""
_UNSETTLED_INDEX = text("state IN ('intent', 'in_doubt')")
Index(
    "calls_unsettled",
    calls.c.state,
    sqlite_where=_UNSETTLED_INDEX,
    postgresql_where=_UNSETTLED_INDEX,
)

answers = Table(
    "answers",
    metadata,
    Column("answer_id", _Id, primary_key=True, autoincrement=True),
    Column("check", Text, nullable=False),
    Column("subject", LargeBinary, nullable=False),
    Column("outcome", Text, nullable=False),
    Column("answered_at", BigInteger, nullable=False),
    Column("call_id", BigInteger, nullable=False),
    Column("run_id", Text, nullable=False),
    Column("cost_micro", BigInteger),
    Column("body", LargeBinary, nullable=False),
    # holds all that a plan reads, so that a warm night never touches the bodies
    Index(
        "answers_by_subject",
        "subject",
        "check",
        "answered_at",
        "answer_id",
        "outcome",
        "call_id",
        "run_id",
        "cost_micro",
    ),
    sqlite_autoincrement=True,
)

spend = Table(
    "spend",
    metadata,
    Column("scope", Text, primary_key=True),  # run:ID, day:DATE, month:YYYY-MM, day:DATE:CHECK
    Column("spent_micro", BigInteger, nullable=False),
    Column("reserved_micro", BigInteger, nullable=False),  # open intents and calls in doubt
    Column("calls", BigInteger, nullable=False),
)

tallies = Table(
    "tallies",
    metadata,
    Column("run_id", Text, primary_key=True),
    Column("check", Text, primary_key=True),
    Column("kind", Text, primary_key=True),
    Column("outcome", Text, primary_key=True),
    Column("answers", BigInteger, nullable=False),
    Column("cost_micro", BigInteger, nullable=False),
)

prices = Table(
    "prices",
    metadata,
    Column("check", Text, primary_key=True),
    Column("latest_micro", BigInteger, nullable=False),
    Column("highest_micro", BigInteger, nullable=False),
    Column("seen_at", BigInteger, nullable=False),  # when the highest was charged last
    Column("charged_at", BigInteger, nullable=False),  # when any was
)
