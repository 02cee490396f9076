"""The journal's schema: every table, declared once, the same on SQLite and PostgreSQL.

Money is whole micro-naira, instants are microseconds since 1970 in UTC, identifiers are keyed
pseudonyms of sixteen bytes. The `info` of a column declares how other modules treat it: erasure and
purge (`erasure`), verification (`verify`), backup and restore (`copying`).

- `whose`: it has a pseudonym; declares what an erasure does to the row (`Ownership`).
- `seal`: it is sealed; declares what binds the value to its row (`Seal`).
- `digest`: other bytes: a digest, or a wrapped key.
- `ground`: the row is purged when it is older than the period of that ground.

The `info` of a table has `old` if its rows are purged by another rule. With `kept`, its rows stay
as long as the journal (`WITH_JOURNAL`), or have nothing that outlives a run or a session
(`PASSING`), and are in no backup. This module reads and writes only the table `meta`.
"""

from __future__ import annotations

import hashlib
from base64 import b64decode, b64encode
from dataclasses import is_dataclass
from enum import StrEnum
from functools import cache
from types import MappingProxyType, UnionType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, get_args, get_origin, get_type_hints

from pydantic import BaseModel
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
    case,
    delete,
    func,
    insert,
    not_,
    or_,
    select,
    text,
)

from nightscreen.files.sealing import SUBJECT_BYTES
from nightscreen.schemas.approvals import Approval
from nightscreen.schemas.bvn import BvnRequest
from nightscreen.schemas.calls import CallState
from nightscreen.schemas.cases import CaseAttachment, CaseComment, OpenCase, Share
from nightscreen.schemas.consented import PULLS, CashFigures, ConsentLink, Grant, GrantState, Pulled
from nightscreen.schemas.contests import (
    Confirmation,
    Contest,
    CustomerAction,
    Hold,
    PolicyVersion,
    Review,
    SentNotice,
    Signature,
)
from nightscreen.schemas.errors import JournalDamagedError, JournalVersionError
from nightscreen.schemas.offers import Offer
from nightscreen.schemas.outcomes import LoanOutcome
from nightscreen.schemas.uploads import Correction, Dismissal, RowToCorrect, Upload
from nightscreen.schemas.users import User
from nightscreen.schemas.wallet import WalletGap

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from sqlalchemy import ColumnElement, Connection
    from sqlalchemy.schema import SchemaItem
    from sqlalchemy.types import TypeEngine

    from nightscreen.files.sealing import Sealer
    from nightscreen.schemas.records import JournalRecord

metadata = MetaData()

TOMBSTONE = bytes(SUBJECT_BYTES)
"""Replaces the pseudonym in an erased person's calls."""
WITH_JOURNAL: Final = "with the journal"
PASSING: Final = "passing"

_Id = BigInteger().with_variant(Integer(), "sqlite")


class Owner(StrEnum):
    """What the pseudonym in a column names, by the fields of `ErasedPseudonyms`."""

    SUBJECT = "subjects"
    """An identifier."""
    CUSTOMER = "customers"
    """A customer in one batch."""
    ANYWHERE = "anywhere"
    """A customer, the same in every batch."""
    AUDIT = "audited"
    """A customer in the desk's audit."""


class Ownership(NamedTuple):
    """To whom a row belongs.

    Attributes:
        owner: what the pseudonym names.
        leaves: values that an erasure writes into the row, which stays; None to delete the row.
        batch: the batch of the row, in place of its column `batch`.
    """

    owner: Owner
    leaves: Mapping[str, bytes | None] | None = None
    batch: str = ""


class Seal(NamedTuple):
    """What binds a sealed value to its row, so that it cannot be moved to another row.

    Attributes:
        label: the column's label; empty for answers, which have their check.
        bound_by: columns of the row.
    """

    label: str
    bound_by: tuple[str, ...]

    def context(self, *values: bytes | str | int) -> bytes:
        """Return the context that binds a value, given the values of `bound_by`."""
        parts = (self.label, *values) if self.label else values
        return b"\x1f".join(p if isinstance(p, bytes) else str(p).encode() for p in parts)


def _table(name: str, *items: SchemaItem, **more: Any) -> Table:  # noqa: ANN401 - as `Table`
    return Table(name, metadata, *items, **more)


def _partial_index(name: str, *columns: str, where: str) -> Index:
    return Index(name, *columns, sqlite_where=text(where), postgresql_where=text(where))


def _whose(name: str, whose: Ownership, **more: Any) -> Column[bytes]:  # noqa: ANN401 - as `Column`
    return Column(name, LargeBinary, info={"whose": whose}, nullable=False, **more)


def _sealed(name: str, seal: Seal, *, nullable: bool = False) -> Column[bytes]:
    return Column(name, LargeBinary, info={"seal": seal}, nullable=nullable)


def _kept_by(name: str, ground: str) -> Column[int]:
    return Column(name, BigInteger, info={"ground": ground}, nullable=False)


def _required(kind: type[TypeEngine[Any]], *names: str) -> list[Column[Any]]:
    return [Column(name, kind, nullable=False) for name in names]


def _optional(kind: type[TypeEngine[Any]], *names: str) -> list[Column[Any]]:
    return [Column(name, kind) for name in names]


_OF_SUBJECT = Ownership(Owner.SUBJECT)
_OF_CUSTOMER = Ownership(Owner.CUSTOMER)
_OF_PULLS = Ownership(Owner.ANYWHERE, batch=PULLS)

# --- the journal's own facts and keys ---

meta = _table(
    "meta",
    Column("name", Text, primary_key=True),
    Column("value", Text, nullable=False),
    info={"kept": WITH_JOURNAL},
)

data_keys = _table(
    "data_keys",
    Column("number", Integer, primary_key=True),
    Column("wrapped_by", Text, primary_key=True),
    Column("wrapped", LargeBinary, nullable=False, info={"digest": True}),
    info={"kept": WITH_JOURNAL},
)
"""Each data key, sealed under the lender's key with the fingerprint `wrapped_by`. After a rotation
both keys of the lender open it, until no run is left that started under the old one."""

# --- runs, calls and money ---

runs = _table(
    "runs",
    Column("run_id", Text, primary_key=True),
    *_required(Text, "flow", "batch", "purpose"),
    Column("state", Text, nullable=False),  # running, completed, stopped, test_mode
    *_optional(Text, "stop_reason", "holder"),
    Column("started_at", BigInteger, nullable=False),
    Column("begun_at", BigInteger, nullable=False),  # when it was last started or resumed
    Column("finished_at", BigInteger),
    *_required(Text, "input_digest", "folder"),
    Column("cap_micro", BigInteger),
    *_optional(BigInteger, "states_first_at", "states_last_at"),  # when it wrote customers' states
    # long texts last: SQLite reads through them to reach later columns
    Column("parameters", Text, nullable=False),  # JSON, no personal data
    Column("report", Text),  # JSON, no personal data
    Index("runs_by_batch", "batch", "started_at"),
    info={"kept": WITH_JOURNAL},
)


def _old_calls(cutoffs: Mapping[str, int]) -> ColumnElement[bool]:
    ended = func.coalesce(calls.c.settled_at, calls.c.intent_at)
    named = or_(calls.c.subject != TOMBSTONE, calls.c.consent_reference.is_not(None))
    under_way = calls.c.state == CallState.INTENT.value
    return (ended < cutoffs["journal_answers"]) & ~under_way & named


calls = _table(
    "calls",
    Column("call_id", _Id, primary_key=True, autoincrement=True),
    *_required(Text, "run_id", "check", "kind"),
    _whose("subject", Ownership(Owner.SUBJECT, {"subject": TOMBSTONE, "consent_reference": None})),
    Column("purpose", Text, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("holder", Text, nullable=False),
    Column("consent_reference", Text),
    *_required(BigInteger, "intent_at", "reserved_micro"),
    Column("state", Text, nullable=False),  # intent, answered, not_sent, not_charged, ...
    *_optional(BigInteger, "sent_at", "settled_at"),
    Column("trouble", Text),
    Column("status", Integer),
    Column("outcome", Text),
    *_optional(BigInteger, "cost_micro", "balance_micro"),
    Column("final", Boolean, nullable=False, default=False),
    Index("calls_by_subject", "subject", "check"),
    Index("calls_by_run", "run_id", "check", "state", "settled_at"),
    _partial_index("calls_unsettled", "state", where="state IN ('intent', 'in_doubt')"),
    info={"old": _old_calls},
)
UNSETTLED = text("calls.state IN ('intent', 'in_doubt')")
"""Condition of the index of unsettled calls; a query must repeat it word for word to use it."""

ANSWER = Seal("", ("check", "subject"))

answers = _table(
    "answers",
    Column("answer_id", _Id, primary_key=True, autoincrement=True),
    Column("check", Text, nullable=False),
    _whose("subject", _OF_SUBJECT),
    Column("outcome", Text, nullable=False),
    _kept_by("answered_at", "journal_answers"),
    Column("call_id", BigInteger, nullable=False),
    Column("run_id", Text, nullable=False),
    Column("cost_micro", BigInteger),
    _sealed("body", ANSWER),
    # covers all that a plan reads, so that a run with many fresh answers never reads the bodies
    Index(
        "answers_by_subject",
        *("subject", "check", "answered_at", "answer_id"),
        *("outcome", "call_id", "run_id", "cost_micro"),
    ),
    sqlite_autoincrement=True,
)

spend = _table(
    "spend",
    Column("scope", Text, primary_key=True),  # run:ID, day:DATE, month:YYYY-MM, day:DATE:CHECK
    Column("spent_micro", BigInteger, nullable=False),
    Column("reserved_micro", BigInteger, nullable=False),  # open intents and calls in doubt
    Column("calls", BigInteger, nullable=False),
    Column("disputed_micro", BigInteger, nullable=False),  # the part of spent that is not believed
    info={"kept": WITH_JOURNAL},
)

prices = _table(
    "prices",
    Column("check", Text, primary_key=True),
    *_required(BigInteger, "latest_micro", "highest_micro"),
    Column("seen_at", BigInteger, nullable=False),  # when the highest was last charged
    Column("charged_at", BigInteger, nullable=False),  # when any was last charged
    info={"kept": WITH_JOURNAL},
)

disputes = _table(
    "disputes",
    Column("call_id", _Id, primary_key=True, autoincrement=False),
    Column("dispute", Text, nullable=False),  # a `DisputeState`
    Column("named_micro", BigInteger),  # the cost in the answer, or the highest possible number
    Column("excess_micro", BigInteger, nullable=False),  # left out by the caps while it is open
    Column("found_at", BigInteger, nullable=False),
    Column("before_micro", BigInteger),  # the cost that counted before the invoice's
    Column("invoice_micro", BigInteger),
    Column("entered_by", Text),
    Column("confirmed_by", Text),
    Column("invoice_at", BigInteger),
    info={"kept": WITH_JOURNAL},
)

# --- lookups of runs under way; nothing outlives the run ---

LOOKUP = Seal("lookup", ("lookup_id", "subject"))

lookups = _table(
    "lookups",
    # the run's first number and the rank
    Column("lookup_id", _Id, primary_key=True, autoincrement=False),
    *_required(Text, "check", "kind"),
    _whose("subject", _OF_SUBJECT),
    Column("worst_micro", BigInteger, nullable=False),
    Column("consent_reference", Text),
    Column("consent_ends_at", BigInteger),
    Column("state", Integer, nullable=False),  # a `LookupStatus`
    Column("attempts", Integer, nullable=False),
    Column("holder", Text),
    _sealed("sealed", LOOKUP),  # JSON: identity, second identity, row
    _partial_index(
        "lookups_left",
        *("check", "state", "lookup_id", "worst_micro"),
        where="state IN (0, 10)",
    ),
    _partial_index("lookups_claimed", "lookup_id", where="state = 9"),
    info={"kept": PASSING},
)

lookup_runs = _table(
    "lookup_runs",
    Column("run_id", Text, primary_key=True),
    Column("holder", Text, nullable=False),
    *_required(BigInteger, "first_id", "end_id"),
    Column("closer_id", BigInteger),  # reserved for the closing balance
    Column("terms", Text, nullable=False),  # JSON, no personal data
    info={"kept": PASSING},
)

run_stops = _table(
    "run_stops",
    Column("run_id", Text, primary_key=True),
    Column("scope", Text, primary_key=True),  # a check, or empty for the run
    Column("reason", Text, nullable=False),
    info={"kept": PASSING},
)

askers = _table(
    "askers",
    Column("run_id", Text, primary_key=True),
    Column("holder", Text, primary_key=True),
    Column("caps", Text, nullable=False),  # JSON: the shared cap of each check or family
    Column("numbers", Text, nullable=False),  # JSON: its progress, no personal data
    info={"kept": PASSING},
)

# --- customers: last answers, their history, sightings of identifiers ---

STATE = Seal("customer state", ("customer",))

customer_states = _table(
    "customer_states",
    _whose("customer", _OF_CUSTOMER, primary_key=True),
    *_required(Text, "batch", "run_id"),
    Column("first_at", BigInteger, nullable=False),
    _kept_by("decided_at", "decisions"),
    Column("gone_run_id", Text),
    _sealed("state", STATE),
    # covers the query of gone customers, so that it reads no state
    Index("customer_states_by_batch", "batch", "customer", "gone_run_id"),
)

customer_history = _table(
    "customer_history",
    Column("history_id", _Id, primary_key=True, autoincrement=True),
    _whose("customer", _OF_CUSTOMER),
    _kept_by("replaced_at", "decisions"),
    Column("run_id", Text, nullable=False),
    Column("decided_at", BigInteger, nullable=False),
    Column("gone_run_id", Text),
    _sealed("state", STATE),
    Index("customer_history_by_customer", "customer", "replaced_at"),
    Index("customer_history_by_time", "replaced_at"),
)

sightings = _table(
    "sightings",
    Column("kind", Text, primary_key=True),
    _whose("identifier", _OF_SUBJECT, primary_key=True),
    _whose("customer", Ownership(Owner.ANYWHERE), primary_key=True),
    Column("batch", Text, primary_key=True),
    # for an account: the BVN in the same row
    Column("bvn", LargeBinary, info={"whose": Ownership(Owner.SUBJECT, {"bvn": None})}),
    Column("first_at", BigInteger, nullable=False),
    _kept_by("last_at", "decisions"),
    sqlite_with_rowid=False,
)

# --- records of people's decisions; each kind is a model (`schemas/records.py`) ---

KINDS: Final[tuple[type[JournalRecord], ...]] = (
    *(Review, OpenCase, Contest, SentNotice, CustomerAction, Confirmation, PolicyVersion),
    *(BvnRequest, Offer, LoanOutcome, Grant, ConsentLink, Pulled, CashFigures),
    *(CaseComment, CaseAttachment, WalletGap, Signature, Hold, User, Approval, Upload, Share),
    *(Correction, Dismissal, RowToCorrect),
)


def _records_of_person(person: ErasedPseudonyms) -> ColumnElement[bool]:
    kept = records.c
    everywhere = [model.kind for model in KINDS if model.everywhere]
    mine = [
        kept.subject.in_(person.subjects),
        kept.customer.in_(person.customers) & kept.kind.not_in(everywhere),
    ]
    for customer, batches in person.anywhere.items():
        meant = [kept.batch.in_(batches) & kept.kind.in_(everywhere)]
        meant += [
            (kept.batch == model.always_in) & (kept.kind == model.kind)
            for model in KINDS
            if model.always_in
        ]
        mine.append((kept.customer == customer) & or_(*meant))
    return or_(*mine)


def _old_records(cutoffs: Mapping[str, int]) -> ColumnElement[bool]:
    """Records that wait stay at any age: an open contest, or a policy in force."""
    kept = records.c
    periods = {model.kind: cutoffs[model.ground] for model in KINDS}
    waiting = [
        (kept.kind == model.kind) & kept.state.in_(sorted(model.waiting))
        for model in KINDS
        if model.waiting
    ]
    old = kept.updated_at < case(periods, value=kept.kind)
    return old & not_(or_(*waiting))


RECORD = Seal("record", ("kind", "key"))

records = _table(
    "records",
    Column("record_id", _Id, primary_key=True, autoincrement=True),
    *_required(Text, "kind", "key"),
    # the kind defines to whom `customer` and `subject` belong; empty if it is about a run
    Column("customer", LargeBinary, nullable=False, info={"by_kind": True}),
    *_required(Text, "batch", "run_id", "state"),
    Column("created_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),  # the start of its retention period
    _sealed("sealed", RECORD),  # the whole record, as JSON
    Column("subject", LargeBinary, info={"by_kind": True}),
    Index("records_by_key", "kind", "key", unique=True),
    Index("records_by_customer", "customer", "kind"),
    Index("records_by_subject", "subject"),
    Index("records_by_batch_and_time", "kind", "batch", "updated_at"),
    Index("records_by_state", "kind", "state"),
    Index("records_by_number", "kind", "record_id"),
    Index("records_by_run", "kind", "run_id"),
    info={"of_person": _records_of_person, "old": _old_records},
)

# --- records pulled for customers who consented ---

TRANSACTION = Seal("transaction", ("customer", "record_key"))


def _old_transactions(cutoffs: Mapping[str, int]) -> ColumnElement[bool]:
    """Old replaced or removed records, and all records of customers whose grants ended long ago."""
    kept, answered = transaction_records.c, cutoffs["journal_answers"]
    is_live = records.c.state == GrantState.LIVE.value
    lately = select(records.c.customer).where(
        records.c.kind == Grant.kind, is_live | (records.c.updated_at >= answered)
    )
    gone = (kept.first_seen_at < answered) & kept.customer.not_in(lately)
    return or_(kept.ended_at < answered, gone)


transaction_records = _table(
    "transaction_records",
    Column("record_id", _Id, primary_key=True, autoincrement=True),
    _whose("customer", _OF_PULLS),
    # a keyed hash of its id, or else of its content; and one of its whole content
    Column("record_key", LargeBinary, nullable=False, info={"digest": True}),
    Column("content", LargeBinary, nullable=False, info={"digest": True}),
    Column("problem", Text),  # why it could not be read
    Column("occurred_at", BigInteger),
    Column("first_seen_at", BigInteger, nullable=False),
    Column("run_id", Text, nullable=False),  # the pull that found it
    Column("told_as", Text, nullable=False),  # added, modified
    Column("ended_at", BigInteger),  # when it was replaced, or missing from an answer
    Column("ended_as", Text),  # modified, removed
    Column("ended_by", Text),  # the pull that found its end
    _sealed("sealed", TRANSACTION),  # the record as it came
    Column("kind", Text, nullable=False),  # a PulledKind
    Index("transaction_records_by_customer", "customer", "ended_at"),
    Index("transaction_records_by_run", "run_id", "record_id"),
    Index("transaction_records_by_end", "ended_by", "record_id"),
    info={"old": _old_transactions},
)

# --- the desk: wrong passwords, and the audit ---

AUDITED = Seal("audited customer", ("number",))

failures = _table(
    "failures",
    Column("failure_id", _Id, primary_key=True, autoincrement=True),
    Column("name", Text, nullable=False),  # a digest
    Column("at", BigInteger, nullable=False),
    Column("source", Text, nullable=False),
    Column("known", Boolean, nullable=False),
    info={"kept": PASSING},
)

audit = _table(
    "audit",
    Column("number", _Id, primary_key=True, autoincrement=False),
    Column("at", BigInteger, nullable=False),
    *_required(Text, "user", "action", "run_id"),
    Column("detail", Text, nullable=False),  # JSON, no personal data
    # the customer it is about; after an erasure it names nobody (`journal/audit.py`)
    Column("customer", LargeBinary, info={"whose": Ownership(Owner.AUDIT, {})}),
    _sealed("sealed", AUDITED, nullable=True),  # the customer's id; empty after its erasure
    Column("mark", LargeBinary, nullable=False, info={"digest": True}),
    Index("audit_by_customer", "customer", "number"),
    Index("audit_by_run", "run_id", "number"),
    info={"kept": WITH_JOURNAL},
)


PASSING_TABLES: Final = tuple(
    table for table in metadata.sorted_tables if table.info.get("kept") == PASSING
)


class ErasedPseudonyms(NamedTuple):
    """All pseudonyms of a person.

    Attributes:
        subjects: of the identifiers.
        customers: of the customer in each batch.
        anywhere: of the customer over all batches, each with the batches to erase.
        audited: of the customer in the desk's audit.
    """

    subjects: Collection[bytes] = ()
    customers: Collection[bytes] = ()
    anywhere: Mapping[bytes, Collection[str]] = MappingProxyType({})
    audited: Collection[bytes] = ()

    @property
    def all(self) -> list[bytes]:
        """Return all of them."""
        return [*self.subjects, *self.customers, *self.anywhere, *self.audited]


# --- the journal's own facts ---


def read_meta(connection: Connection, *names: str) -> dict[str, str]:
    """Return the named values of `meta` that exist, by name."""
    query = select(meta.c.name, meta.c.value).where(meta.c.name.in_(names))
    rows = connection.execute(query)
    return {row.name: row.value for row in rows}


def put_meta(connection: Connection, name: str, value: str) -> None:
    """Write a value of `meta`."""
    connection.execute(delete(meta).where(meta.c.name == name))
    connection.execute(insert(meta), {"name": name, "value": value})


def sealed_text(sealer: Sealer, value: bytes, name: str) -> str:
    """Return bytes sealed for `meta`, bound to their name."""
    return b64encode(sealer.seal(value, f"meta\x1f{name}".encode())).decode()


def open_text(sealer: Sealer, value: str, name: str) -> bytes:
    """Return bytes that `sealed_text` sealed."""
    return sealer.open(b64decode(value), f"meta\x1f{name}".encode())


# --- the version of a journal ---

VERSION: Final = "schema"
LINK_KEYS: Final = "link_keys"
_META = {LINK_KEYS: list[tuple[str, int | None]]}  # the forms of JSON values in `meta`


@cache
def declared_version() -> str:
    """Return the version of this program's journals: a digest of declared tables and records."""
    lines = [line for table in metadata.sorted_tables for line in sorted(_declared(table))]
    lines += sorted(_shape(model) for model in KINDS)
    lines += [f"meta {name} {_shape(form)}" for name, form in _META.items()]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def _declared(table: Table) -> Iterator[str]:
    for column in table.columns:
        rules = (column.type, column.nullable, column.primary_key, column.autoincrement)
        yield f"{table.name}.{column.name} {rules}"
    for index in table.indexes:
        names = [column.name for column in index.columns]
        where = index.dialect_options["sqlite"]["where"]
        yield f"{table.name} {index.name} {names} {index.unique} {where}"


def _shape(kind: Any) -> str:  # noqa: ANN401 - any annotation of a field
    """Return a type as text, the same in every process and Python; a model with its fields."""
    if parts := get_args(kind):
        origin = get_origin(kind)
        name = "Union" if origin is UnionType else origin.__name__
        return f"{name}[{', '.join(map(_shape, parts))}]"
    name = getattr(kind, "__name__", str(kind))
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        types = {name: field.annotation for name, field in kind.model_fields.items()}
    elif is_dataclass(kind):
        types = get_type_hints(kind)
    else:
        return name
    return f"{name}({', '.join(f'{field}: {_shape(types[field])}' for field in sorted(types))})"


def require_declared(facts: Mapping[str, str]) -> None:
    """Refuse a journal of another version.

    Raises:
        JournalDamagedError: it has no version.
        JournalVersionError: another version of the program made it.
    """
    found = facts.get(VERSION)
    if found is None:
        raise JournalDamagedError(
            "the journal does not say which version it has; it was left untouched: restore it from "
            "a backup"
        )
    if found != declared_version():
        raise JournalVersionError(
            f"the journal was made by another version of nightscreen (its schema is {found}, this "
            f"program's {declared_version()}): use that version, or set NIGHTSCREEN_HOME and "
            "NIGHTSCREEN_JOURNAL_URL to a place for a new journal"
        )
