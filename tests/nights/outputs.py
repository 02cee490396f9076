"""The outputs of a night as text that people can compare: the same for two runs of the same code.

The files stand one below the other. JSON has a line for each value, a table one for each column.
What is different each time or says nothing of the night is replaced by a word in angle brackets:
ids of runs, instants within a night, latencies, digests and versions. Pseudonyms become the
customer whose they are. Left out is what repeats the rest: the page (`report.html`), the manifest,
and the workbook beside its summary.
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
"""Names of values that say how long something took."""
SHARED_FROM = 2
"""Workers from whom on chance decides in which order calls are made, and so what each leaves."""
OF_EARLIER = ("state", "stop_reason", "rows", "cost", "balance", "decisions", "notices")
"""What is told of the report of an earlier session of a run."""
CALLS_BY = ("check", "pseudonym", "attempts", "call_id")
"""The order of calls: that in which they were made depends on the schedule."""
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
    """What stands for what is different each time."""

    runs: Mapping[str, str]  # a word for each run's id, in the order of the runs
    pseudonyms: Mapping[str, str]  # whose they are, by their text
    evenings: Sequence[tuple[int, int]]  # first and last instant of each night in microseconds

    def text(self, given: str) -> str:
        """Return a text in its normal form."""
        found = _RUN.sub(lambda each: self.runs.get(each[0], "<run>"), given)
        found = _PSEUDONYM.sub(lambda each: self.pseudonyms.get(each[0], each[0]), found)
        found = _DIGEST.sub("<digest>", found)
        return _INSTANT.sub(lambda each: self._instant(each[0]), found)

    def _instant(self, given: str) -> str:
        try:
            found = datetime.fromisoformat(given)
        except ValueError:
            return given
        return self.instant(found) or given

    def instant(self, given: datetime) -> str | None:
        """Return the night an instant falls in, None where it falls in none."""
        aware = given if given.tzinfo else given.replace(tzinfo=LAGOS)
        at = to_micros(aware)
        for number, (begun, ended) in enumerate(self.evenings, 1):
            if begun - begun % _SECOND <= at <= ended + _SECOND:  # some are told to the second
                return f"<night {number}>"
        return None

    def value(self, given: Any, name: str = "") -> Any:  # noqa: ANN401 - any value
        """Return any value in its normal form, as JSON has it; `name` is what it is told under."""
        if isinstance(given, dict):
            return self._mapping(given, name)
        if isinstance(given, list | tuple):
            return [self.value(each, name) for each in given]
        if name in LATENCIES and given is not None:
            return "<seconds>"
        return self._plain(given)

    def _mapping(self, given: Mapping[str, Any], name: str) -> Any:  # noqa: ANN401 - as `value`
        if name == "versions":
            return sorted(given)
        if given.keys() == {"rows", "exposure", "unknown_rows"}:
            unknown = f", {given['unknown_rows']} unknown" if given["unknown_rows"] else ""
            return f"{given['rows']} rows, {given['exposure']}{unknown}"
        return {key: self.value(each, key) for key, each in given.items()}

    def _plain(self, given: Any) -> Any:  # noqa: ANN401 - as `value`
        match given:
            case datetime():
                return self.instant(given) or given.isoformat().replace("+00:00", "Z")
            case date():
                return given.isoformat()
            case Decimal():
                return f"{given.normalize():f}"  # the column's type tells the places
            case str():
                return self.text(given)
        return given


def names_of(world: FixedWorld) -> Names:
    """Return what stands for what is different each time, in all nights of a world."""
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
    words = {run: f"<run {number}>" for number, run in enumerate(runs, 1)}
    return Names(words, pseudonyms, world.evenings)


def outputs_of(night: Night, names: Names) -> str:
    manifest = night.folder / "manifest.json"
    parameters = json.loads(manifest.read_text("utf-8"))["parameters"] if manifest.exists() else {}
    by_chance = parameters.get("workers", 1) >= SHARED_FROM
    found: list[str] = []
    for path in sorted(path for path in night.folder.iterdir() if path.name not in LEFT_OUT):
        found += ["", f"=== {path.name}"]
        match path.suffix:
            case ".json":
                report = json.loads(path.read_text("utf-8"))
                if path.name.startswith("report-"):  # of an earlier session: the last tells all
                    report = {key: report[key] for key in OF_EARLIER}
                found.append(json.dumps(names.value(report), ensure_ascii=False, indent=1))
            case ".csv":
                with path.open(encoding="utf-8-sig", newline="") as file:
                    found += _columns(csv.reader(file), names)
            case ".xlsx":
                summary = openpyxl.load_workbook(path)["Summary"].iter_rows(values_only=True)
                found += (_line(str(head), row, names) for head, *row in summary)
            case _:
                found += _arrow_columns(path, names, ordered_by_chance=by_chance)
    return "\n".join([*found[1:], ""])


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


def _type(given: pa.DataType) -> str:
    """Return a type in short; text is the plain one."""
    if pa.types.is_dictionary(given):
        return "word"
    for long, short in _SHORT_TYPES:
        given = str(given).replace(long, short)
    return str(given)


def _columns(lines: Iterable[Sequence[str]], names: Names) -> Iterable[str]:
    for head, *cells in zip_longest(*lines):
        yield _line(str(head), cells, names)


def _line(head: str, cells: Iterable[Any], names: Names) -> str:
    """Return a column on a line; a cell that comes several times in a row is told once."""
    runs = groupby(json.dumps(names.value(cell), ensure_ascii=False) for cell in cells)
    told = ((cell, len(list(run))) for cell, run in runs)
    return f"{head}: {', '.join(cell if n == 1 else f'{n} x {cell}' for cell, n in told)}"
