"""The outputs of a run as text that people can compare: the same for two runs of the same code.

The text has the files in order, with a line for each JSON value and for each column of a table.
Values that differ between runs are replaced by names in angle brackets: ids of runs, instants
within a run, latencies, digests and versions. Pseudonyms become their customer. Files that repeat
others are left out: the page (`report.html`), the manifest, and the workbook except its summary.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from itertools import groupby, zip_longest
from pathlib import Path
from typing import Any

import openpyxl
import pyarrow as pa
import pyarrow.parquet as pq

from nightscreen.privacy.lookup_subject import subjects_of
from nightscreen.schemas.clock import LAGOS, MICROS, to_micros
from tests.nights.fixed_world import FixedWorld
from tests.screening import Night

LEFT_OUT = ("manifest.json", "report.html")
LATENCIES = {"latency_ms", "p50", "p95", "p99", "active_s"}
"""Names of durations."""
SHARED_FROM = 2
"""With so many workers chance decides the order of calls, and so the balance after each."""
OF_EARLIER = ("state", "stop_reason", "rows", "cost", "balance", "decisions", "notices")
"""The parts shown of the report of an earlier session of a run."""
CALLS_BY = ("check", "pseudonym", "attempts", "call_id")
"""The order in which calls are shown; the order in which they were made depends on chance."""
_RUN = re.compile(r"\b\d{8}-\d{6}-[0-9a-f]{6}\b")
_PSEUDONYM = re.compile(r"\b[0-9a-f]{32}\b")
_DIGEST = re.compile(r"\b(?=\d*[a-f])[0-9a-f]{12,64}\b")
_INSTANT = re.compile(r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d)?")
_SECOND = MICROS
_SHORT_TYPES = (
    ("timestamp[us, tz=UTC]", "instant"),
    ("date32[day]", "date"),
    ("decimal128", "decimal"),
    ("list<element: string>", "list"),
    ("string", ""),
)


@dataclass(frozen=True)
class Names:
    """Names that replace values which differ between runs."""

    runs: Mapping[str, str]  # a name for each run's id, in the order of the runs
    pseudonyms: Mapping[str, str]  # the customer by pseudonym, as hex
    evenings: Sequence[tuple[int, int]]  # first and last instant of each run, microseconds

    def text(self, raw: str) -> str:
        """Return a text with its changing parts replaced."""
        named = _RUN.sub(lambda match: self.runs.get(match[0], "<run>"), raw)
        named = _PSEUDONYM.sub(lambda match: self.pseudonyms.get(match[0], match[0]), named)
        named = _DIGEST.sub("<digest>", named)
        return _INSTANT.sub(lambda match: self._instant(match[0]), named)

    def _instant(self, text: str) -> str:
        try:
            instant = datetime.fromisoformat(text)
        except ValueError:
            return text
        return self.instant(instant) or text

    def instant(self, moment: datetime) -> str | None:
        """Return the name of the run in which an instant falls, None if it falls in none."""
        aware = moment if moment.tzinfo else moment.replace(tzinfo=LAGOS)
        at = to_micros(aware)
        for number, (first, last) in enumerate(self.evenings, 1):
            if first - first % _SECOND <= at <= last + _SECOND:  # some are written to the second
                return f"<night {number}>"
        return None

    def value(self, raw: Any, name: str = "") -> Any:  # noqa: ANN401 - any value
        """Return a value of the field `name` for JSON, with its changing parts replaced."""
        if isinstance(raw, dict):
            return self._mapping(raw, name)
        if isinstance(raw, list | tuple):
            return [self.value(each, name) for each in raw]
        if name in LATENCIES and raw is not None:
            return "<seconds>"
        return self._plain(raw)

    def _mapping(self, raw: Mapping[str, Any], name: str) -> Any:  # noqa: ANN401 - as `value`
        if name == "versions":
            return sorted(raw)
        if raw.keys() == {"rows", "exposure", "unknown_rows"}:
            unknown = f", {raw['unknown_rows']} unknown" if raw["unknown_rows"] else ""
            return f"{raw['rows']} rows, {raw['exposure']}{unknown}"
        return {key: self.value(each, key) for key, each in raw.items()}

    def _plain(self, raw: Any) -> Any:  # noqa: ANN401 - as `value`
        match raw:
            case datetime():
                return self.instant(raw) or raw.isoformat().replace("+00:00", "Z")
            case date():
                return raw.isoformat()
            case Decimal():
                return f"{raw.normalize():f}"  # the column's type has the places
            case str():
                return self.text(raw)
        return raw


def names_of(world: FixedWorld) -> Names:
    """Return the names for all runs of a world."""
    pseudonyms: dict[str, str] = {}
    with world.journal() as journal:
        runs = sorted(run.run_id for run in journal.runs.newest(limit=None))
        known = journal.pseudonyms
        for path in sorted(world.folder.glob("out/*/report.json")):
            night = Night(path.parent, json.loads(path.read_text("utf-8")))
            batch = night.report["batch"]
            for row in night.rows:
                customer_id = row["customer_id"]
                pseudonyms[known.customer(batch, customer_id).hex()] = f"<{customer_id}>"
                for subject, kind in subjects_of([row], known).items():
                    pseudonyms.setdefault(subject.hex(), f"<{kind} of {customer_id}>")
    run_names = {run: f"<run {number}>" for number, run in enumerate(runs, 1)}
    return Names(run_names, pseudonyms, world.evenings)


def outputs_of(night: Night, names: Names) -> str:
    manifest = night.folder / "manifest.json"
    parameters = json.loads(manifest.read_text("utf-8"))["parameters"] if manifest.exists() else {}
    by_chance = parameters.get("workers", 1) >= SHARED_FROM
    lines: list[str] = []
    for path in sorted(path for path in night.folder.iterdir() if path.name not in LEFT_OUT):
        lines += ["", f"=== {path.name}"]
        match path.suffix:
            case ".json":
                report = json.loads(path.read_text("utf-8"))
                if path.name.startswith("report-"):  # of an earlier session; the last has it all
                    report = {key: report[key] for key in OF_EARLIER}
                lines.append(json.dumps(names.value(report), ensure_ascii=False, indent=1))
            case ".csv":
                with path.open(encoding="utf-8-sig", newline="") as file:
                    lines += _columns(csv.reader(file), names)
            case ".xlsx":
                summary = openpyxl.load_workbook(path)["Summary"].iter_rows(values_only=True)
                lines += (_line(str(head), row, names) for head, *row in summary)
            case _:
                lines += _arrow_columns(path, names, ordered_by_chance=by_chance)
    return "\n".join([*lines[1:], ""])


def _arrow_columns(path: Path, names: Names, *, ordered_by_chance: bool) -> Iterable[str]:
    parts = sorted(path.glob("part-*.parquet")) if path.is_dir() else [path]
    table = pa.concat_tables([pq.read_table(part) for part in parts])
    rows = [{k: names.value(v, k) for k, v in row.items()} for row in table.to_pylist()]
    if path.stem == "calls":
        rows.sort(key=lambda row: tuple(row[name] for name in CALLS_BY))
        for row in rows:
            row["call_id"] = "<number>"
            if ordered_by_chance and row["balance"] is not None:
                row["balance"] = "<balance>"
    for each in table.schema:
        head = f"{each.name} {_type(each.type)}".rstrip()
        yield _line(head, [row[each.name] for row in rows], names)


def _type(kind: pa.DataType) -> str:
    """Return a short name of a type, empty for text."""
    if pa.types.is_dictionary(kind):
        return "word"
    name = str(kind)
    for long, short in _SHORT_TYPES:
        name = name.replace(long, short)
    return name


def _columns(lines: Iterable[Sequence[str]], names: Names) -> Iterable[str]:
    for head, *cells in zip_longest(*lines):
        yield _line(str(head), cells, names)


def _line(head: str, cells: Iterable[Any], names: Names) -> str:
    """Return a column on one line; equal cells in succession are written once, with a count."""
    groups = groupby(json.dumps(names.value(cell), ensure_ascii=False) for cell in cells)
    counted = ((cell, len(list(group))) for cell, group in groups)
    return f"{head}: {', '.join(cell if n == 1 else f'{n} x {cell}' for cell, n in counted)}"
