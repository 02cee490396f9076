"""What a pull leaves behind: typed records, changes, quarantine, notices, its part of the report.

Everything is made from the journal alone, so that a pull that was stopped or killed is closed as
honestly as one that went through.
"""

from __future__ import annotations

from collections import Counter
from itertools import chain
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from nightscreen.files.outputs import CHANGES_FILE, QUARANTINE
from nightscreen.files.private_files import make_private_folder
from nightscreen.files.quarantine import QuarantineWriter
from nightscreen.files.run_folder import RunFolder
from nightscreen.journal.consents import Consents
from nightscreen.operations.person_run import write_rows
from nightscreen.operations.transactions.cashflow import write_cash_flow
from nightscreen.operations.transactions.records import HINTS, Drift
from nightscreen.operations.transactions.store import PullStore
from nightscreen.schemas.clock import lagos_day, to_instant
from nightscreen.schemas.pulls import KEPT, UNCHANGED, PulledKind, PullOutcome, TransactionChange
from nightscreen.schemas.rows import INSTANT, RefusedRow, SourceColumn
from nightscreen.schemas.stops import TEST_MODE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from nightscreen.calling.run import Run
    from nightscreen.operations.transactions.cashflow import CashFlow
    from nightscreen.operations.transactions.records import RecordFields
    from nightscreen.operations.transactions.store import Version

CHANGES_SCHEMA = pa.schema(
    [
        pa.field("customer", pa.string(), nullable=False),
        pa.field("record_key", pa.string()),
        pa.field("change", pa.dictionary(pa.int32(), pa.string()), nullable=False),
        pa.field("readable", pa.bool_()),
        pa.field("changed_at", INSTANT, nullable=False),
        pa.field("records", pa.int32()),
    ]
)
"""One row for each record added, modified or removed, by pseudonyms; and one for each customer
whose list was suspiciously short, with how many removals wait."""
_QUARANTINED = tuple(SourceColumn(name, None, name) for name in ("customer_id", "record_key"))
NOTICES = {
    "lapsed": "consents lapsed, since the service does not renew them any more: ask these "
    "customers again; see: nightscreen consent list",
    "short": "customers' lists are suspicious: they lack much of what was there; nothing is "
    "reported as removed until the next pull confirms it",
    "lost beside": "customers' profiles were not answered; their accounts are kept, and the next "
    "pull asks again",
    "refused": "refreshes were refused and no other call under this key was answered: check "
    "NIGHTSCREEN_API_KEY, then resume the run; no consent was given up",
}
"""What a person should know of how a pull went; the number of customers stands before it."""
_COUNTS = (*(each.value for each in TransactionChange), "held", "out_of_reach")


class PullFiles:
    """A run's pulls added up as the journal has them, and its files.

    Args:
        run: the run.
        fields: those of each kind that was pulled, its own first.

    Attributes:
        outcomes: how many customers came to which end.
        counts: numbers of records by word, and of those that a list repeats by kind.
    """

    def __init__(self, run: Run, fields: Mapping[PulledKind, RecordFields]) -> None:
        self.run, self.fields, self.store = run, fields, PullStore(run.journal)
        self.pulls = self.store.pulls.of_run(run.run_id)
        grants = Consents(run.journal).grants()
        self.ids = {each.customer: each.customer_id for each in grants}
        self.outcomes = Counter(each.state.value for each in self.pulls)
        self.counts: Counter[str] = Counter()
        self.drift = Drift()
        for pulled in self.pulls:
            for kind, noted in pulled.summary.items():
                self.counts.update({word: noted.get(word, 0) for word in (*_COUNTS, "answered")})
                self.counts["unreadable"] += len(noted.get("unreadable", ()))
                self.counts[f"repeated {kind}"] += noted.get("repeated", 0)
                self.counts["lost beside"] += "outcome" in noted
                self.drift.add(noted.get("drift", {}))

    def write(self, cash_flow: CashFlow) -> dict[str, Any]:
        """Write every file; return the parts of the report that a pull adds.

        Raises:
            OutputError: a file cannot be written.
            JournalError: the journal cannot be used.
        """
        written = dict.fromkeys(self.fields, 0)
        if self.run.stops.ending()[0] != TEST_MODE:
            written = {kind: self._write_typed(kind) for kind in self.fields}
            write_cash_flow(self.run, self.store, cash_flow, self.pulls)
        write_rows(self.run.folder, CHANGES_FILE, self._changes(), CHANGES_SCHEMA)
        self._write_quarantine()
        due = PullOutcome.DUE.value
        return {
            "customers": {
                due: len(self.pulls),
                **{each.value: self.outcomes[each] for each in PullOutcome if each != due},
                "pending": self.outcomes[due],
            },
            "changes": {word: self.counts[word] for word in _COUNTS},
            **{
                kind.folder: {
                    "written": rows,
                    "file": "/".join(self._part(kind).parts[-3:]) if rows else None,
                    "repeated": self.counts[f"repeated {kind}"],
                }
                for kind, rows in written.items()
            },
            "drift": self.drift.document(),
        }

    def _part(self, kind: PulledKind) -> Path:
        """Return where the typed records of the run lie: a part of their own, by day in Lagos."""
        folder, day = self.run.folder.path, lagos_day(self.run.started_at).isoformat()
        return folder.parent / kind.folder / f"pulled_on={day}" / f"{folder.name}.parquet"

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
        part = RunFolder(make_private_folder(path.parent))
        return part.write_parquet(path.name, schema, chain([first], tables))

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

    def _changes(self) -> Iterator[dict[str, Any]]:
        for row in self.store.changes(self.run.run_id):
            yield {
                "customer": row.customer.hex(),
                "record_key": row.record_key.hex(),
                "change": row.change,
                "readable": row.problem is None,
                "changed_at": to_instant(row.at),
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
        """Write each record that cannot be read: whose it is, its place in the list, and why.

        What it says stays sealed in the journal.
        """
        folder = self.run.folder
        with QuarantineWriter(folder.path / QUARANTINE, _QUARANTINED) as file:
            for each in self.pulls:
                for noted in each.summary.values():
                    file.write(
                        RefusedRow(
                            line=place,
                            column=column,
                            code=code,
                            hint=HINTS.get(code, ""),
                            values=(self.ids.get(each.customer, ""), key),
                        )
                        for place, key, code, column in noted.get("unreadable", ())
                    )
        folder.rows[QUARANTINE] = self.counts["unreadable"]

    def add_notices(self, lapsed: int) -> None:
        """Add what a person should know of how the pull went; so many consents lapsed."""
        numbers = {
            "lapsed": lapsed,
            "short": self.outcomes[PullOutcome.SUSPICIOUS_SHORT],
            "lost beside": self.counts["lost beside"],
            "refused": self.outcomes[PullOutcome.REFRESH_REFUSED],
        }
        said = (f"{number} {NOTICES[word]}" for word, number in numbers.items() if number)
        self.run.stops.notices.extend(said)
