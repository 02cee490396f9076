"""What differs between the kept measure of a night and its outputs, and the reasons for it.

The measure is a file a night under `measure/`. Reasons are in `reasons.toml`; each names what may
differ by patterns of night, file and path, where `*` stands for anything.
"""

from __future__ import annotations

import json
import tomllib
from collections import Counter
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.nights.outputs import rows_of, written

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

HERE = Path(__file__).parent
MEASURE = HERE / "measure"
REASONS = HERE / "reasons.toml"
NOTHING = "(nothing)"
KEYS = {
    "enriched": ("customer_id",),
    "decisions.csv": ("customer_id",),
    "notices.csv": ("customer_id", "reason_code"),
    "shadow.csv": ("customer_id",),
    "changes.parquet": ("customer", "check", "field"),
    "calls.parquet": ("check", "pseudonym", "attempts"),
    "problems.csv": ("line", "column", "code"),
    "quarantine.csv": ("line",),
}
"""What tells the rows of a table apart; those of other tables go by their number."""


class Difference(NamedTuple):
    """One value that is not what was kept."""

    night: str
    file: str
    path: str  # within the file: keys of JSON, or row and column of a table, divided by dots
    kept: Any  # the value in the measure
    found: Any  # the value now

    def __str__(self) -> str:
        """Return a line for people."""
        kept, found = (
            each if each is NOTHING else json.dumps(each, ensure_ascii=False)
            for each in (self.kept, self.found)
        )
        return f"{self.night}: {self.file}: {self.path}: kept {kept}, found {found}"


@dataclass(frozen=True)
class Reason:
    """Why some values differ from what is kept; patterns of where they are."""

    night: str
    file: str
    path: str
    reason: str

    def names(self, difference: Difference) -> bool:
        """Return whether it is the reason of a difference."""
        pairs = (
            (difference.night, self.night),
            (difference.file, self.file),
            (difference.path, self.path),
        )
        return all(fnmatchcase(text, pattern) for text, pattern in pairs)


def read_reasons(path: Path = REASONS) -> list[Reason]:
    """Return the reasons that are given."""
    return [Reason(**each) for each in tomllib.loads(path.read_text("utf-8")).get("reasons", [])]


def read_kept(night: str, folder: Path = MEASURE) -> dict[str, Any]:
    """Return the outputs of a night as they are kept; none where it never was."""
    path = folder / f"{night}.json"
    kept: dict[str, Any] = json.loads(path.read_text("utf-8")) if path.exists() else {}
    return kept


def keep(night: str, outputs: Mapping[str, Any], folder: Path = MEASURE) -> None:
    """Keep the outputs of a night as the measure."""
    (folder / f"{night}.json").write_text(f"{written(outputs)}\n", "utf-8")


def differences(
    night: str, kept: Mapping[str, Any], found: Mapping[str, Any]
) -> Iterator[Difference]:
    """Yield what differs; what a measure holds is compared as it would be read back."""
    found = json.loads(json.dumps(found))
    for file in sorted({*kept, *found}):
        if file not in kept or file not in found:
            here = ["a file" if file in side else NOTHING for side in (kept, found)]
            yield Difference(night, file, "", *here)
            continue
        compare = _of_tables if _is_table(kept[file]) and _is_table(found[file]) else _of_values
        for path, was, now in compare(file, kept[file], found[file]):
            yield Difference(night, file, path.removeprefix(f"{file}."), was, now)


def _is_table(value: Any) -> bool:  # noqa: ANN401 - any value of JSON
    return isinstance(value, dict) and {"rows", "columns"} <= value.keys()


def _of_values(path: str, kept: Any, found: Any) -> Iterator[tuple[str, Any, Any]]:  # noqa: ANN401 - any value of JSON
    if isinstance(kept, dict) and isinstance(found, dict):
        for key in dict.fromkeys([*kept, *found]):
            below = (side.get(key, NOTHING) for side in (kept, found))
            yield from _of_values(f"{path}.{key}", *below)
        if kept.keys() == found.keys() and list(kept) != list(found):
            yield f"{path}.(order)", list(kept), list(found)
    elif isinstance(kept, list) and isinstance(found, list) and len(kept) == len(found):
        for place, (was, now) in enumerate(zip(kept, found, strict=True)):
            yield from _of_values(f"{path}.{place}", was, now)
    elif type(kept) is not type(found) or kept != found:
        yield path, kept, found


def _of_tables(
    file: str, kept: Mapping[str, Any], found: Mapping[str, Any]
) -> Iterator[tuple[str, Any, Any]]:
    columns = [list(side["columns"]) for side in (kept, found)]
    for name in dict.fromkeys([*columns[0], *columns[1]]):
        if name not in columns[0] or name not in columns[1]:
            was, now = ("a column" if name in side else NOTHING for side in columns)
            yield f"(columns).{name}", was, now
    both = [
        [name for name in side if name in columns[0] and name in columns[1]] for side in columns
    ]
    if both[0] != both[1]:
        yield "(columns).(order)", both[0], both[1]
    rows = [_keyed(file, rows_of(side)) for side in (kept, found)]
    for key in dict.fromkeys([*rows[0], *rows[1]]):
        if key not in rows[0] or key not in rows[1]:
            was, now = ("a row" if key in side else NOTHING for side in rows)
            yield key, was, now
            continue
        for name in both[0]:
            cells = (side[key][name] for side in rows)
            yield from _of_values(f"{key}.{name.split(' ')[0]}", *cells)
    shared = [[key for key in side if key in rows[0] and key in rows[1]] for side in rows]
    if shared[0] != shared[1]:
        yield "(rows).(order)", shared[0], shared[1]
    for name in (kept.keys() | found.keys()) - {"rows", "columns"}:
        yield from _of_values(name, kept.get(name, NOTHING), found.get(name, NOTHING))


def _keyed(file: str, rows: Sequence[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """Return rows by what tells them apart; of several alike all but the first are numbered."""
    seen: Counter[str] = Counter()
    found = {}
    for number, row in enumerate(rows, 1):
        plain = {name.split(" ")[0]: value for name, value in row.items()}
        known = [str(plain[name]) for name in KEYS.get(file, ()) if name in plain]
        key = " ".join(known) if known else f"row {number}"
        seen[key] += 1
        found[key if seen[key] == 1 else f"{key} ({seen[key]})"] = row
    return found


def judged(
    found: Sequence[Difference], reasons: Sequence[Reason]
) -> tuple[list[Difference], list[Reason]]:
    """Return the differences that nothing names, and the reasons that name none."""
    unnamed = [each for each in found if not any(reason.names(each) for reason in reasons)]
    needless = [reason for reason in reasons if not any(map(reason.names, found))]
    return unnamed, needless
