"""The outputs of a night in one normal, reviewable form: the same for two runs of the same code.

A document by file. Of JSON it holds the values as they are, of every table its columns. What is
different each time or says nothing of the night is replaced by a word in angle brackets: ids of
runs, instants within a night, latencies, digests and versions. Pseudonyms become the customer whose
they are. Left out are the pages (`report.html`) and the manifest, which repeat the rest.
"""

from __future__ import annotations

import csv
import json
import re
from collections import Counter, defaultdict
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any

import openpyxl
import pyarrow as pa
import pyarrow.parquet as pq

from nightscreen.privacy.lookup_subject import subjects_of
from nightscreen.schemas.clock import LAGOS, MICROS, to_micros
from tests.screening import Night

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from tests.nights.fixed_world import FixedWorld

    Table = dict[str, Any]

LEFT_OUT = ("manifest.json", "report.html")
LATENCIES = {"latency_ms", "p50", "p95", "p99", "active_s"}
"""Names of values that say how long something took."""
SHARED_FROM = 2
"""Workers from whom on chance decides in which order calls are made, and so what each leaves."""
OF_EARLIER = ("state", "stop_reason", "rows", "cost", "balance", "decisions", "notices")
"""What is told of the report of an earlier session of a run."""
DECISIONS = ("decline", "review", "undecided")
"""Sheets of the workbook that are the list for operations."""
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


def outputs_of(night: Night, names: Names) -> dict[str, Any]:
    """Return the outputs of a night, by file."""
    found: dict[str, Any] = {}
    manifest = night.folder / "manifest.json"
    parameters = json.loads(manifest.read_text("utf-8"))["parameters"] if manifest.exists() else {}
    workers = parameters.get("workers", 1)
    paths = sorted(path for path in night.folder.iterdir() if path.name not in LEFT_OUT)
    for path in paths:
        match path.suffix:
            case ".json":
                report = json.loads(path.read_text("utf-8"))
                found[path.name] = names.value(report)
            case ".csv":
                found[path.name] = _csv_table(path, names)
            case ".xlsx":
                found |= _workbook(path, names, found["decisions.csv"])
            case _:
                found[path.name] = _arrow_table(
                    path, names, ordered_by_chance=workers >= SHARED_FROM
                )
    for name, report in found.items():
        if name.startswith("report-"):  # of an earlier session: the last one is cumulative
            found[name] = {key: report[key] for key in OF_EARLIER}
    return found


def _arrow_table(path: Path, names: Names, *, ordered_by_chance: bool) -> Table:
    parts = sorted(path.glob("part-*.parquet")) if path.is_dir() else [path]
    table = pa.concat_tables([pq.read_table(part) for part in parts])
    if path.stem == "calls":
        rows = [{k: names.value(v, k) for k, v in row.items()} for row in table.to_pylist()]
        order = sorted(range(len(rows)), key=partial(_place, rows))
        table = table.take(pa.array(order, pa.int64()))
        rows = [rows[place] for place in order]
        for row in rows:
            row["call_id"] = "<number>"
            if ordered_by_chance and row["balance"] is not None:
                row["balance"] = "<balance>"
    else:
        rows = [{k: names.value(v, k) for k, v in row.items()} for row in table.to_pylist()]
    columns = {f"{each.name} {_type(each.type)}".rstrip(): each.name for each in table.schema}
    return _columns({head: [row[name] for row in rows] for head, name in columns.items()})


def _type(given: pa.DataType) -> str:
    """Return a type in short; text is the plain one."""
    if pa.types.is_dictionary(given):
        return "word"
    for long, short in _SHORT_TYPES:
        given = str(given).replace(long, short)
    return str(given)


def _place(rows: Sequence[Mapping[str, Any]], number: int) -> tuple[Any, ...]:
    return tuple(rows[number][name] for name in CALLS_BY)


def _csv_table(path: Path, names: Names) -> Table:
    with path.open(encoding="utf-8-sig", newline="") as file:
        lines = list(csv.reader(file))
    return _lines(lines, names)


def _lines(lines: Sequence[Sequence[Any]], names: Names) -> Table:
    """Return lines under their headings; a heading that comes twice is numbered."""
    if not lines:
        return {"rows": 0, "columns": {}}
    heads = _numbered(str(each) for each in lines[0])
    width = max(map(len, lines))
    heads += [f"(cell {number})" for number in range(len(heads) + 1, width + 1)]
    rows = [[*line, *[None] * (width - len(line))] for line in lines[1:]]
    cells = [[names.value(cell) for cell in row] for row in rows]
    return _columns({head: [row[place] for row in cells] for place, head in enumerate(heads)})


def _numbered(heads: Iterable[str]) -> list[str]:
    seen: Counter[str] = Counter()
    found = []
    for head in heads:
        seen[head] += 1
        found.append(head if seen[head] == 1 else f"{head} ({seen[head]})")
    return found


def _workbook(path: Path, names: Names, listed: Table) -> dict[str, Any]:
    """Return each sheet; of the list's columns that say what the CSV file says, only that."""
    found = {}
    for sheet in openpyxl.load_workbook(path):
        lines = [list(row) for row in sheet.iter_rows(values_only=True)]
        if sheet.title == "Summary":
            lines = [["name", "value"], *lines]
        table = _lines(lines, names)
        decision = sheet.title.lower()
        if decision in DECISIONS:
            as_csv = [row for row in rows_of(listed) if row["decision"] == decision]
            _refer(table, as_csv)
        found[f"{path.name}/{sheet.title}"] = table
    return found


def _refer(sheet: Table, as_csv: Sequence[Mapping[str, Any]]) -> None:
    """Name the column of the CSV file in place of what is the same there."""
    if not as_csv or sheet["rows"] != len(as_csv):
        return
    same = []
    for head, name in zip(list(sheet["columns"]), as_csv[0], strict=False):
        told = [cell or "" for cell in cells(sheet["columns"][head], sheet["rows"])]
        if told == [row[name] for row in as_csv]:
            same.append(f"{head} = {name}")
            del sheet["columns"][head]
    sheet["as in the CSV file"] = same


def _columns(columns: Mapping[str, list[Any]]) -> Table:
    """Return a table by column, each in the shortest of three forms that `cells` reads."""
    rows = max((len(values) for values in columns.values()), default=0)
    return {"rows": rows, "columns": {name: _short(values) for name, values in columns.items()}}


def _short(values: list[Any]) -> Any:  # noqa: ANN401 - see `cells`
    places: dict[str, list[int]] = defaultdict(list)
    for number, value in enumerate(values, 1):
        if value is not None:
            places[_text(value)].append(number)
    filled = [number for numbers in places.values() for number in numbers]
    forms = [
        {word: _ranges(numbers, len(values)) for word, numbers in places.items()},
        {_ranges(sorted(filled), len(values)): [each for each in values if each is not None]},
        values,
    ]
    return min(forms, key=lambda form: len(written(form)))


def _ranges(numbers: Sequence[int], rows: int) -> str:
    """Write numbers in ascending order as ranges; `all` where they are all there are."""
    if len(numbers) == rows:
        return "all"
    found: list[list[int]] = []
    for number in numbers:
        if found and number == found[-1][-1] + 1:
            found[-1][1:] = [number]
        else:
            found.append([number])
    return " ".join("-".join(map(str, each)) for each in found)


def _numbers(ranges: str, rows: int) -> list[int]:
    """Read what `_ranges` writes."""
    if ranges == "all":
        return list(range(1, rows + 1))
    ends = [[int(each) for each in part.split("-")] for part in ranges.split()]
    return [number for each in ends for number in range(each[0], each[-1] + 1)]


def cells(column: Any, rows: int) -> list[Any]:  # noqa: ANN401 - as kept
    """Return the cells of a column as it is kept; what is not told is null.

    It is kept as a list of all cells, as `{rows: [cells]}` or, by value, as `{cell: rows}`, where
    rows are text such as `1-3 7` or `all`; a cell that is no text is JSON after a `=`.
    """
    if isinstance(column, list):
        return column
    found: list[Any] = [None] * rows
    for key, value in column.items():
        if isinstance(value, list):
            told = dict(zip(_numbers(key, rows), value, strict=True))
        else:
            told = dict.fromkeys(_numbers(value, rows), _value(key))
        for number, cell in told.items():
            found[number - 1] = cell
    return found


def _text(cell: Any) -> str:  # noqa: ANN401 - any cell
    """Write a cell as a key of JSON."""
    plain = isinstance(cell, str) and not cell.startswith("=")
    return str(cell) if plain else f"={json.dumps(cell, ensure_ascii=False)}"


def _value(key: str) -> Any:  # noqa: ANN401 - any cell
    """Read what `_text` writes."""
    return json.loads(key[1:]) if key.startswith("=") else key


def rows_of(table: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the rows of a table in its normal form."""
    rows = table["rows"]
    columns = {name: cells(column, rows) for name, column in table["columns"].items()}
    return [{name: column[number] for name, column in columns.items()} for number in range(rows)]


LINE = 110  # characters that fill a line


def written(value: Any, indent: int = 0) -> str:  # noqa: ANN401 - any value of JSON
    """Write JSON that people can compare: short values share a line, longer ones have their own."""
    whole = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    short = len(whole) + indent <= LINE
    if isinstance(value, dict) and not short:
        inner = [
            f"{json.dumps(key, ensure_ascii=False)}:{written(each, indent + 1)}"
            for key, each in value.items()
        ]
        return f"{{\n{_filled(inner, indent + 1)}\n{' ' * indent}}}"
    if isinstance(value, list) and not short and any(isinstance(each, dict) for each in value):
        inner = [written(each, indent + 1) for each in value]
        return f"[\n{_filled(inner, indent + 1)}\n{' ' * indent}]"
    return whole


def _filled(parts: Sequence[str], indent: int) -> str:
    """Put parts on lines of usual length, as many on each as fit."""
    lines: list[str] = []
    for part in parts:
        fits = lines and len(lines[-1]) + len(part) < LINE and "\n" not in lines[-1] + part
        if fits:
            lines[-1] += f",{part}"
        else:
            lines.append(" " * indent + part)
    return ",\n".join(lines)
