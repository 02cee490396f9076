"""What a pull leaves behind: typed records, changes, quarantine, calls, report.

Everything here is made from the journal alone, so that a pull that was stopped or killed can be
closed as honestly as one that went through. Records are read and compared elsewhere.
"""

from __future__ import annotations

import csv
from collections import Counter
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from nightscreen.files.outputs import CHANGES_FILE, QUARANTINE
from nightscreen.files.private_files import atomic_write, make_private_folder
from nightscreen.files.quarantine import escape_formula
from nightscreen.operations.transactions.cashflow_run import write_cash_flow
from nightscreen.operations.transactions.json_decode import parse_text
from nightscreen.operations.transactions.record_fields import BEFORE, HINTS, Drift
from nightscreen.operations.transactions.sync import BESIDE, OPERATION_OF, judge_refused
from nightscreen.report.api_run import OperationEnds, close_api_run
from nightscreen.runs.run_report import run_end
from nightscreen.schemas.calls import LookupStatus
from nightscreen.schemas.checks import Operation
from nightscreen.schemas.clock import lagos_day, to_instant
from nightscreen.schemas.pulls import (
    KEPT,
    UNCHANGED,
    Pulled,
    PulledKind,
    PullOutcome,
    TransactionChange,
)
from nightscreen.schemas.rows import INSTANT
from nightscreen.schemas.stops import TEST_MODE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from datetime import date
    from pathlib import Path

    from nightscreen.operations.transactions.sync import TransactionSync
    from nightscreen.operations.transactions.transaction_files import Version

_WORD = pa.dictionary(pa.int32(), pa.string())
CHANGES_SCHEMA = pa.schema(
    [
        pa.field("customer", pa.string(), nullable=False),
        pa.field("record_key", pa.string()),
        pa.field("change", _WORD, nullable=False),
        pa.field("fields", pa.list_(pa.string())),
        pa.field("readable", pa.bool_()),
        pa.field("changed_at", INSTANT, nullable=False),
        pa.field("records", pa.int32()),
    ]
)
"""One row for each record added, modified or removed, by pseudonyms; and one for each customer
whose list was suspiciously short, with how many removals wait."""
_COLUMNS = ("customer_id", "record", "record_key", "column", "code", "hint")
_BLOCK = 2000
"""Records that are typed at once."""
_LOOK_BACK = 10
"""Pulls whose drift is not told again in a notice."""
_COUNTS = ("added", "modified", "removed", "held", "out_of_reach")


@dataclass(slots=True)
class _Totals:
    """A run's pulls added up."""

    outcomes: Counter[PullOutcome] = field(default_factory=Counter)
    standings: Counter[LookupStatus] = field(default_factory=Counter)
    counts: Counter[str] = field(default_factory=Counter)
    shapes: Counter[str] = field(default_factory=Counter)
    drift: Drift = field(default_factory=Drift)
    answered: int = 0
    unreadable: int = 0

    repeated: Counter[PulledKind] = field(default_factory=Counter)
    lost_beside: int = 0

    def take(self, pulled: Pulled) -> None:
        """Add one customer."""
        self.outcomes[pulled.outcome] += 1
        self.standings[LookupStatus(pulled.standing)] += 1
        for kind, summary in _summaries(pulled):
            self.counts.update({name: summary[name] for name in _COUNTS if name in summary})
            self.repeated[kind] += summary.get("repeated", 0)
            self.answered += summary.get("answered", 0)
            self.unreadable += len(summary.get("unreadable", ()))
            self.lost_beside += kind is not pulled.kind and "outcome" in summary
            if "shape" in summary:
                self.shapes[summary["shape"]] += 1
            self.drift.add(summary.get("drift", {}))


def _summaries(pulled: Pulled) -> Iterator[tuple[PulledKind, Mapping[str, Any]]]:
    """Yield what was noted of each kind that was pulled of a customer."""
    yield pulled.kind, pulled.summary
    for kind, summary in pulled.summary.get("beside", {}).items():
        yield PulledKind(kind), summary


def close_pull(pull: TransactionSync) -> dict[str, Any]:
    """Judge what was refused, write every file, and note the run's end; return the report.

    Raises:
        OutputError: a file cannot be written.
        JournalError: the journal cannot be used.
    """
    lapsed = judge_refused(pull)
    run = pull.run
    state, _ = run.stops.ending()
    totals = _Totals()
    pulls = pull.store.pulls(run.run_id)
    for each in pulls:
        totals.take(each)
    ids = _customer_ids(pull)
    written = dict.fromkeys(BESIDE[pull.kind], 0)
    if state != TEST_MODE:
        written = {kind: write_typed(pull, kind, pulls, ids) for kind in written}
        write_cash_flow(pull, pulls)
    write_changes(pull, pulls)
    write_quarantine(pull, pulls, ids)
    _give_notices(pull, totals, lapsed)
    rows = {
        "read": totals.answered,
        "screened": totals.answered - totals.unreadable,
        "quarantined": totals.unreadable,
    }
    return close_api_run(
        run_end(run),
        rows=rows,
        operations=_operations(pull, totals),
        more=_more(pull, totals, written),
    )


def _more(
    pull: TransactionSync, totals: _Totals, written: Mapping[PulledKind, int]
) -> dict[str, Any]:
    counts = totals.counts
    due = sum(totals.outcomes.values())
    return {
        "customers": {
            "due": due,
            **{each.value: totals.outcomes[each] for each in PullOutcome if each != "due"},
            "pending": totals.outcomes[PullOutcome.DUE],
        },
        "changes": {
            **{each.value: counts[each.value] for each in TransactionChange},
            "held": counts["held"],
            "out_of_reach": counts["out_of_reach"],
        },
        **{
            kind.folder: {
                "written": rows,
                "file": _place(pull, kind) if rows else None,
                "repeated": totals.repeated[kind],
            }
            for kind, rows in written.items()
        },
        "drift": _drift(totals),
    }


def _place(pull: TransactionSync, kind: PulledKind) -> str:
    """Return where a kind's typed records lie below the output folder."""
    part = part_of(pull.run.folder.path, pull.run.started_at, kind)
    return part.relative_to(part.parents[2]).as_posix()


def _give_notices(pull: TransactionSync, totals: _Totals, lapsed: int) -> None:
    notices = pull.run.stops.notices
    if lapsed:
        notices.append(
            f"{lapsed} consents lapsed, since the service does not renew them any more: ask these "
            "customers again; see: nightscreen consent list"
        )
    short = totals.outcomes[PullOutcome.SUSPICIOUS_SHORT]
    if short:
        notices.append(
            f"suspicious: {short} customers' lists lack much of what was there; nothing is told as "
            "removed until the next pull confirms it"
        )
    if totals.lost_beside:
        notices.append(
            f"{totals.lost_beside} customers' profiles were not answered; their accounts are kept, "
            "and the next pull asks again"
        )
    refused = totals.outcomes[PullOutcome.REFRESH_REFUSED]
    if refused:
        notices.append(
            f"{refused} refreshes were refused and no other call under this key was answered: "
            "check NIGHTSCREEN_API_KEY, then resume the run; no consent was given up"
        )
    strange = _names(_drift(totals)) - _told_before(pull)
    if strange:
        notices.append(
            f"the service's records have changed shape ({', '.join(sorted(strange)[:5])}): "
            f"see drift in the report, and data/{pull.kind}_fields.toml"
        )


def _drift(totals: _Totals) -> dict[str, dict[str, int]]:
    return {**totals.drift.document(), "shape": dict(sorted(totals.shapes.items()))}


def _names(drift: Mapping[str, Mapping[str, int]]) -> set[str]:
    return {
        f"{kind} {name}"
        for kind, names in drift.items()
        for name in names
        if (kind, name) != ("shape", "data")
    }


def _told_before(pull: TransactionSync) -> set[str]:
    """Return what the last pulls that ended told of drift."""
    runs = pull.run.journal.runs.newest(batch=pull.run.batch, limit=_LOOK_BACK)
    others = (run for run in runs if run.run_id != pull.run.run_id)
    reports = (run.report for run in others if run.flow == pull.run.flow)
    return {name for report in reports if report for name in _names(report.get("drift", {}))}


# --- calls ---


def _operations(pull: TransactionSync, totals: _Totals) -> dict[Operation, OperationEnds]:
    lists = OPERATION_OF[pull.kind]
    answers = {each.value: number for each, number in totals.outcomes.items() if number}
    found = {lists: OperationEnds(totals.standings, answers)}
    beside = [OPERATION_OF[kind] for kind in BESIDE[pull.kind] if kind is not pull.kind]
    for operation in (*beside, Operation.AGGREGATOR_REFRESH):
        ended = _endings(pull, operation)
        if ended:
            found[operation] = OperationEnds(ended)
    return found


def _endings(pull: TransactionSync, operation: Operation) -> Counter[LookupStatus]:
    """Return how an operation's questions ended: each is its calls up to the one that ended it."""
    words = {
        "in_doubt": LookupStatus.IN_DOUBT,
        "failed": LookupStatus.FAILED,
        "pending": LookupStatus.WAITING,
    }
    ended: Counter[LookupStatus] = Counter()
    for rows in pull.run.journal.runs.calls(pull.run.run_id):
        for row in rows:
            if row.check == operation.value and row.state == "answered":
                ended[LookupStatus.PAID if row.cost_micro else LookupStatus.FREE] += 1
    for (check, _), word in pull.run.journal.runs.unanswered(pull.run.run_id).items():
        if check == operation.value:
            ended[words[word]] += 1
    return ended


# --- typed records ---


def part_of(folder: Path, started_at: int, kind: PulledKind) -> Path:
    """Return where the typed records of a run lie: a part of their own, by day in Lagos."""
    day: date = lagos_day(started_at)
    return folder.parent / kind.folder / f"pulled_on={day.isoformat()}" / f"{folder.name}.parquet"


def _customer_ids(pull: TransactionSync) -> dict[bytes, str]:
    return {each.customer: each.customer_id for each in pull.consents.grants()}


def write_typed(
    pull: TransactionSync, kind: PulledKind, pulls: Iterable[Pulled], ids: Mapping[bytes, str]
) -> int:
    """Write typed records; return how many.

    Of transactions those that the run brought, added or modified; of accounts and profiles all that
    stand for the customers it pulled. No file appears where there are none, and one of an earlier
    session of the run is replaced.
    """
    path = part_of(pull.run.folder.path, pull.run.started_at, kind)
    tables = _typed(pull, kind, pulls, ids)
    first = next(tables, None)
    if first is None:
        path.unlink(missing_ok=True)
        return 0
    make_private_folder(path.parents[1], ours=False)
    make_private_folder(path.parent)
    schema = pull.fields[kind].schema
    words = [each.name for each in schema if pa.types.is_dictionary(each.type)]
    rows = 0
    with (
        atomic_write(path) as partial,
        pq.ParquetWriter(
            partial,
            schema,
            compression="zstd",
            compression_level=1,
            use_dictionary=words,
        ) as writer,
    ):
        for table in (first, *tables):
            writer.write_table(table)
            rows += table.num_rows
    return rows


def _typed(
    pull: TransactionSync, kind: PulledKind, pulls: Iterable[Pulled], ids: Mapping[bytes, str]
) -> Iterator[pa.Table]:
    blocks: Iterable[Iterable[Version]] = pull.store.brought(pull.run.run_id, kind)
    if kind.is_state:
        whose = [each.customer for each in pulls if each.outcome in KEPT and _has(each, kind)]
        standing = chain.from_iterable(pull.store.current(each, kind) for each in whose)
        blocks = iter(lambda: list(islice(standing, _BLOCK)), [])
    for block in blocks:
        readable = [each for each in block if each.problem is None and each.customer in ids]
        if readable:
            yield _typed_table(pull, kind, readable, ids)


def _has(pulled: Pulled, kind: PulledKind) -> bool:
    """Tell whether a pull was answered with records of a kind."""
    return any(each is kind and "answered" in noted for each, noted in _summaries(pulled))


def _typed_table(
    pull: TransactionSync, kind: PulledKind, versions: Iterable[Version], ids: Mapping[bytes, str]
) -> pa.Table:
    """Return versions of records as a table of the typed schema."""
    fields, run_id = pull.fields[kind], pull.run.run_id
    rows = [
        {
            **fields.view(parse_text(each.raw)).values,
            BEFORE[0].name: ids[each.customer],
            BEFORE[1].name: each.key.hex(),
            BEFORE[2].name: each.told_as if each.run_id == run_id else UNCHANGED,
            BEFORE[3].name: to_instant(each.first_seen_at),
        }
        for each in versions
    ]
    return pa.Table.from_pylist(rows, schema=fields.schema)


# --- changes and quarantine ---


def write_changes(pull: TransactionSync, pulls: Iterable[Pulled]) -> int:
    """Write `changes.parquet`: what was added, modified and removed, by pseudonyms alone."""
    return pull.run.folder.write_parquet(CHANGES_FILE, CHANGES_SCHEMA, _changes(pull, pulls))


def _changes(pull: TransactionSync, pulls: Iterable[Pulled]) -> Iterator[pa.Table]:
    run_id = pull.run.run_id
    for block in pull.store.brought(run_id):
        yield _change_table([_change(each, each.told_as, each.first_seen_at) for each in block])
    for block in pull.store.removed(run_id):
        gone = TransactionChange.REMOVED.value
        yield _change_table([_change(each, gone, each.ended_at or 0) for each in block])
    short = [each for each in pulls if each.outcome is PullOutcome.SUSPICIOUS_SHORT]
    yield _change_table(
        [
            {
                "customer": each.customer.hex(),
                "change": each.outcome.value,
                "changed_at": to_instant(each.answered_at or 0),
                "records": each.summary.get("held", 0),
            }
            for each in short
        ]
    )


def _change(version: Version, how: str, at: int) -> dict[str, Any]:
    return {
        "customer": version.customer.hex(),
        "record_key": version.key.hex(),
        "change": how,
        "fields": version.changed if how == TransactionChange.MODIFIED else None,
        "readable": version.problem is None,
        "changed_at": to_instant(at),
    }


def _change_table(rows: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(rows, schema=CHANGES_SCHEMA)


def write_quarantine(
    pull: TransactionSync, pulls: Iterable[Pulled], ids: Mapping[bytes, str]
) -> int:
    """Write `quarantine.csv`: each record that cannot be read, whose it is, where and why.

    What it says stays sealed in the journal.
    """
    rows = 0
    with (
        pull.run.folder.file(QUARANTINE) as partial,
        partial.open("w", encoding="utf-8", newline="") as file,
    ):
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(_COLUMNS)
        for each in pulls:
            customer = escape_formula(ids.get(each.customer, ""))
            for _, summary in _summaries(each):
                for place, key, code, column in summary.get("unreadable", ()):
                    writer.writerow([customer, place, key, column, code, HINTS.get(code, "")])
                    rows += 1
    pull.run.folder.rows[QUARANTINE] = rows
    return rows
