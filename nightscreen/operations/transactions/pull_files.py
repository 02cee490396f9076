"""What a pull leaves behind: typed records, changes, quarantine, notices, its part of the report.

Everything is made from the journal alone, so that a pull that was stopped or killed is closed as
honestly as one that went through.
"""

from __future__ import annotations

import csv
from collections import Counter
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from nightscreen.files.outputs import CHANGES_FILE, QUARANTINE
from nightscreen.files.private_files import atomic_write, make_private_folder
from nightscreen.files.quarantine import escape_formula
from nightscreen.journal.consents import Consents
from nightscreen.operations.person_run import write_rows
from nightscreen.operations.transactions.cashflow import write_cash_flow
from nightscreen.operations.transactions.records import HINTS, Drift
from nightscreen.operations.transactions.store import PullStore
from nightscreen.schemas.clock import lagos_day, to_instant
from nightscreen.schemas.pulls import KEPT, UNCHANGED, PulledKind, PullOutcome, TransactionChange
from nightscreen.schemas.rows import INSTANT
from nightscreen.schemas.stops import TEST_MODE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from nightscreen.calling.run import Run
    from nightscreen.operations.transactions.cashflow import CashFlow
    from nightscreen.operations.transactions.records import RecordFields
    from nightscreen.operations.transactions.store import Version
    from nightscreen.schemas.pulls import Pulled

CHANGES_SCHEMA = pa.schema(
    [
        pa.field("customer", pa.string(), nullable=False),
        pa.field("record_key", pa.string()),
        pa.field("change", pa.dictionary(pa.int32(), pa.string()), nullable=False),
        pa.field("fields", pa.list_(pa.string())),
        pa.field("readable", pa.bool_()),
        pa.field("changed_at", INSTANT, nullable=False),
        pa.field("records", pa.int32()),
    ]
)
"""One row for each record added, modified or removed, by pseudonyms; and one for each customer
whose list was suspiciously short, with how many removals wait."""
_COLUMNS = ("customer_id", "record", "record_key", "column", "code", "hint")
_LOOK_BACK = 10  # pulls whose drift is not told again in a notice
_COUNTS = (*(each.value for each in TransactionChange), "held", "out_of_reach")


@dataclass(frozen=True, slots=True)
class PullFiles:
    """A run's pulls added up, and its files."""

    run: Run
    fields: Mapping[PulledKind, RecordFields]  # of each kind that was pulled, its own first
    cash_flow: CashFlow
    store: PullStore
    pulls: list[Pulled]  # how it went with each customer
    ids: Mapping[bytes, str]  # customers by their pseudonyms
    # numbers of records by word and by word and kind, and of lists by shape
    counts: Counter[str] = field(default_factory=Counter)
    drift: Drift = field(default_factory=Drift)  # how records differ from what is known

    @classmethod
    def of(
        cls, run: Run, fields: Mapping[PulledKind, RecordFields], cash_flow: CashFlow
    ) -> PullFiles:
        """Return a run's pulls as the journal has them."""
        store = PullStore(run.journal)
        ids = {each.customer: each.customer_id for each in Consents.of(run.journal).grants()}
        found = cls(run, fields, cash_flow, store, store.pulls.of_run(run.run_id), ids)
        for pulled in found.pulls:
            for kind, noted in pulled.summary.items():
                found.counts.update({word: noted.get(word, 0) for word in (*_COUNTS, "answered")})
                found.counts["unreadable"] += len(noted.get("unreadable", ()))
                found.counts[f"repeated {kind}"] += noted.get("repeated", 0)
                found.counts["lost beside"] += "outcome" in noted
                found.drift.add(noted.get("drift", {}))
        return found

    @property
    def rows_read(self) -> int:
        """Return how many records were answered; of them `rows_refused` cannot be read."""
        return self.counts["answered"]

    @property
    def rows_refused(self) -> int:
        """Return how many records are in quarantine."""
        return self.counts["unreadable"]

    @property
    def outcomes(self) -> Counter[str]:
        """Return how many customers came to which end."""
        return Counter(each.state.value for each in self.pulls)

    def write(self) -> dict[str, Any]:
        """Write every file; return the parts of the report that a pull adds.

        Raises:
            OutputError: a file cannot be written.
            JournalError: the journal cannot be used.
        """
        written = dict.fromkeys(self.fields, 0)
        if self.run.stops.ending()[0] != TEST_MODE:
            written = {kind: self._write_typed(kind) for kind in self.fields}
            write_cash_flow(self.run, self.store, self.cash_flow, self.pulls)
        write_rows(self.run.folder, CHANGES_FILE, self._changes(), CHANGES_SCHEMA)
        self._write_quarantine()
        outcomes = self.outcomes
        due = PullOutcome.DUE.value
        return {
            "customers": {
                due: len(self.pulls),
                **{each.value: outcomes[each] for each in PullOutcome if each != due},
                "pending": outcomes[due],
            },
            "changes": {word: self.counts[word] for word in _COUNTS},
            **{
                kind.folder: {
                    "written": rows,
                    "file": self._place(kind) if rows else None,
                    "repeated": self.counts[f"repeated {kind}"],
                }
                for kind, rows in written.items()
            },
            "drift": self.drift.document(),
        }

    # --- typed records ---

    def _part(self, kind: PulledKind) -> Path:
        """Return where the typed records of the run lie: a part of their own, by day in Lagos."""
        folder, day = self.run.folder.path, lagos_day(self.run.started_at)
        name = f"{folder.name}.parquet"
        return folder.parent / kind.folder / f"pulled_on={day.isoformat()}" / name

    def _place(self, kind: PulledKind) -> str:
        part = self._part(kind)
        return part.relative_to(part.parents[2]).as_posix()

    def _write_typed(self, kind: PulledKind) -> int:
        """Write typed records; return how many.

        Of transactions those that the run brought, added or modified; of accounts and profiles all
        that stand for the customers it pulled. No file appears where there are none, and one of an
        earlier session of the run is replaced.
        """
        path, schema = self._part(kind), self.fields[kind].schema
        tables = (
            pa.Table.from_pylist(rows, schema)
            for block in self._blocks(kind)
            if (rows := [self._typed(kind, each) for each in block if self._is_shown(each)])
        )
        first = next(tables, None)
        if first is None:
            path.unlink(missing_ok=True)
            return 0
        make_private_folder(path.parents[1], ours=False)
        make_private_folder(path.parent)
        words = [each.name for each in schema if pa.types.is_dictionary(each.type)]
        how = {"compression": "zstd", "compression_level": 1, "use_dictionary": words}
        rows_written = 0
        with atomic_write(path) as partial, pq.ParquetWriter(partial, schema, **how) as writer:
            for table in chain([first], tables):
                writer.write_table(table)
                rows_written += table.num_rows
        return rows_written

    def _blocks(self, kind: PulledKind) -> Iterator[list[Version]]:
        if not kind.is_state:
            yield from self.store.brought(self.run.run_id, kind)
            return
        for each in self.pulls:
            if each.state in KEPT and "answered" in each.summary.get(kind.value, ()):
                yield from self.store.current(each.customer, kind)

    def _is_shown(self, version: Version) -> bool:
        return version.problem is None and version.customer in self.ids

    def _typed(self, kind: PulledKind, version: Version) -> dict[str, Any]:
        is_new = version.run_id == self.run.run_id
        return {
            **self.fields[kind].typed(version.raw),
            "customer_id": self.ids[version.customer],
            "record_key": version.key.hex(),
            "change": version.change.value if is_new else UNCHANGED,
            "seen_at": to_instant(version.first_seen_at),
        }

    # --- changes and quarantine ---

    def _changes(self) -> Iterator[dict[str, Any]]:
        for change in self.store.changes(self.run.run_id):
            yield {
                "customer": change.customer.hex(),
                "record_key": change.key.hex(),
                "change": change.change,
                "fields": change.fields,
                "readable": change.problem is None,
                "changed_at": to_instant(change.at),
            }
        for each in self.pulls:
            if each.state is PullOutcome.SUSPICIOUS_SHORT:
                yield {
                    "customer": each.customer.hex(),
                    "change": each.state.value,
                    "changed_at": to_instant(each.answered_at or 0),
                    "records": each.summary[each.pulled.value]["held"],
                }

    def _write_quarantine(self) -> None:
        """Write each record that cannot be read: whose it is, where and why.

        What it says stays sealed in the journal.
        """
        folder = self.run.folder
        with (
            folder.file(QUARANTINE) as partial,
            partial.open("w", encoding="utf-8", newline="") as file,
        ):
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(_COLUMNS)
            for each in self.pulls:
                customer = escape_formula(self.ids.get(each.customer, ""))
                for noted in each.summary.values():
                    for place, key, code, column in noted.get("unreadable", ()):
                        hint = HINTS.get(code, "")
                        writer.writerow([customer, place, key, column, code, hint])
        folder.rows[QUARANTINE] = self.rows_refused

    # --- notices ---

    def add_notices(self, lapsed: int) -> None:
        """Add what a person should know of how the pull went; so many consents lapsed."""
        outcomes, notices = self.outcomes, self.run.stops.notices
        strange = sorted(_names(self.drift.document()) - self._drift_before())
        if lapsed:
            notices.append(
                f"{lapsed} consents lapsed, since the service does not renew them any more: ask "
                "these customers again; see: nightscreen consent list"
            )
        if short := outcomes[PullOutcome.SUSPICIOUS_SHORT]:
            notices.append(
                f"suspicious: {short} customers' lists lack much of what was there; nothing is "
                "reported as removed until the next pull confirms it"
            )
        if lost := self.counts["lost beside"]:
            notices.append(
                f"{lost} customers' profiles were not answered; their accounts are kept, and the "
                "next pull asks again"
            )
        if refused := outcomes[PullOutcome.REFRESH_REFUSED]:
            notices.append(
                f"{refused} refreshes were refused and no other call under this key was answered: "
                "check NIGHTSCREEN_API_KEY, then resume the run; no consent was given up"
            )
        if strange:
            notices.append(
                f"the service's records have changed shape ({', '.join(strange[:5])}): see drift "
                f"in the report, and data/{next(iter(self.fields))}_fields.toml"
            )

    def _drift_before(self) -> set[str]:
        """Return what the last pulls that ended reported of drift."""
        runs = self.run.journal.runs.newest(batch=self.run.batch, limit=_LOOK_BACK)
        reports = [
            each.report
            for each in runs
            if each.run_id != self.run.run_id and each.flow == self.run.flow
        ]
        return {name for report in reports if report for name in _names(report.get("drift", {}))}


def _names(drift: Mapping[str, Mapping[str, int]]) -> set[str]:
    return {
        f"{word} {name}"
        for word, names in drift.items()
        for name in names
        if (word, name) != ("shape", "data")
    }
