"""How the columns of one file are understood: headings, mapping and names in the output.

Turns a row of headings into a `ColumnMapping`. The modules of the formats read the headings;
`headings.py` knows single words.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from nightscreen.files.quarantine import unescape_formula
from nightscreen.reading import headings as words
from nightscreen.reading.mapping import Mapping, nearest
from nightscreen.reading.raw_table import MOST_COLUMNS
from nightscreen.schemas.columns import CUSTOMERS
from nightscreen.schemas.decisions import QUARANTINE_COLUMNS
from nightscreen.schemas.errors import InputError
from nightscreen.schemas.rows import Header, SourceColumn

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from nightscreen.schemas.columns import InputKind

LONGEST_HEADING = 120
"""Characters of a column's name; what is longer is a note, or text that ran into the headings."""
CONSENT_HINTS = ("consent", "withdraw", "revok", "optout")


@dataclass(frozen=True, slots=True)
class ColumnMapping:
    """A file's columns as understood.

    Attributes:
        header: the columns that go on, and the findings about them.
        order: for each column of the header, its position in the file.
        guarded: the file is a quarantine file, whose cells have the formula guard.
    """

    header: Header
    order: tuple[int, ...]
    guarded: bool


def understand(
    path: Path,
    raw_headings: Sequence[str],
    mapping: Mapping | None = None,
    findings: Sequence[str] = (),
    *,
    kind: InputKind = CUSTOMERS,
) -> ColumnMapping:
    """Say what each column of a file means.

    Args:
        path: the file, for messages.
        raw_headings: as the file has them.
        mapping: what the user says about them.
        findings: what the reading of the file has to say already.
        kind: what its rows are.

    Raises:
        InputError: no column means one that is required, two columns mean the same thing, or the
            mapping names a heading that the file does not have.
    """
    names = _Names(path, raw_headings)
    meaning = _Meaning(path, names, mapping or Mapping(), kind)
    found = meaning.assign()
    for required in kind.required:
        if required not in found.values() and required not in meaning.mapping.defaults:
            raise _missing(path, names, found, required, kind)
    kept = meaning.in_order([at for at in names.positions if at not in meaning.dropped])
    header = Header(
        columns=_columns(kept, names, found, kind),
        findings=(*meaning.findings(kept), *findings, *names.findings),
        defaults={k: v for k, v in meaning.mapping.defaults.items() if k not in found.values()},
        date_order=meaning.mapping.date_order,
        fed_back=names.quarantine_at is not None,
        loan_status=meaning.loan_status(kept),
    )
    return ColumnMapping(header=header, order=tuple(kept), guarded=names.quarantine_at is not None)


def unique_headings(path: Path, raw_headings: Sequence[str]) -> list[str]:
    """Return a file's headings as a mapping may name them: tidied, and each once."""
    names = _Names(path, raw_headings)
    return [names.unique[at] for at in names.positions]


class _Names:
    """The headings of a file, tidied and made unique; without the columns of a quarantine file."""

    def __init__(self, path: Path, raw: Sequence[str]) -> None:
        if len(raw) > MOST_COLUMNS:
            raise InputError(
                f"{path}: {len(raw)} columns, over {MOST_COLUMNS}; leave out what is not needed"
            )
        tidied = [words.tidy(heading) for heading in raw]
        self.findings: list[str] = []
        long = sum(1 for heading in tidied if len(heading) > LONGEST_HEADING)
        if long:
            self.findings.append(f"{_count(long, 'heading')} cut to {LONGEST_HEADING} characters.")
            tidied = [heading[:LONGEST_HEADING].rstrip() for heading in tidied]
        self.quarantine_at = _quarantine_columns(tidied)
        self.positions = list(range(len(tidied)))
        if self.quarantine_at is not None:
            del self.positions[self.quarantine_at : self.quarantine_at + 4]
            self.findings.append(
                "This is a quarantine file: its columns line, column, code and hint are left out, "
                "and the guard against formulas is taken off."
            )
            tidied = [unescape_formula(heading) for heading in tidied]
        self.tidied = tidied
        self.unique = _unique(tidied, self.positions)
        self._report_changes([raw[at] for at in self.positions])
        if not self.positions:
            raise InputError(f"{path}: no headings; the first line must name the columns")

    def _report_changes(self, raw: Sequence[str]) -> None:
        blank = sum(1 for at in self.positions if not self.tidied[at])
        if blank:
            self.findings.append(f"{_count(blank, 'column')} without a heading: named column_N.")
        spaced = sum(1 for heading in raw if heading.strip() and heading != heading.strip())
        if spaced:
            self.findings.append(f"Blanks round {_count(spaced, 'heading')} were taken off.")
        seen: set[str] = set()
        for at in self.positions:
            heading = self.tidied[at]
            if heading.casefold() in seen and heading and not words.looks_like_value(heading):
                self.findings.append(f'The heading "{heading}" is there more than once.')
            seen.add(heading.casefold())

    def find(self, heading: str) -> int | None:
        """Return the position of a heading: exactly as written, or the only one written alike."""
        for at in self.positions:
            if heading in (self.unique[at], self.tidied[at]):
                return at
        alike = [at for at in self.positions if words.fold(self.tidied[at]) == words.fold(heading)]
        return alike[0] if len(alike) == 1 else None

    def listed(self) -> str:
        """Return the headings for a message; none of them where one may be somebody's data."""
        shown = [self.unique[at] for at in self.positions]
        if any(words.looks_like_value(heading) for heading in shown):
            return "they look like data; does the file have a line of headings?"
        most = 40
        more = f" and {len(shown) - most} more" if len(shown) > most else ""
        return ", ".join(shown[:most]) + more


def _quarantine_columns(tidied: Sequence[str]) -> int | None:
    """Return the index where `line`, `column`, `code`, `hint` are together, the last one."""
    wanted = QUARANTINE_COLUMNS
    starts = range(len(tidied) - len(wanted), -1, -1)
    return next((at for at in starts if tuple(tidied[at : at + len(wanted)]) == wanted), None)


def _unique(tidied: Sequence[str], positions: Sequence[int]) -> list[str]:
    """Name blank headings by place, and number repeated ones, whatever their case."""
    names = list(tidied)
    taken = {tidied[at].casefold() for at in positions if tidied[at]}
    seen: set[str] = set()
    for at in positions:
        name = tidied[at]
        if not name or name.casefold() in seen:
            stem = name or "column"
            number = 2 if name else at + 1
            while f"{stem}_{number}".casefold() in taken:
                number += 1
            name = f"{stem}_{number}"
        names[at] = name
        seen.add(name.casefold())
        taken.add(name.casefold())
    return names


@dataclass
class _Meaning:
    """Gives each column of a file its meaning: the mapping first, then the known headings."""

    path: Path
    names: _Names
    mapping: Mapping
    kind: InputKind
    dropped: set[int] = field(default_factory=set)
    merged: list[list[int]] = field(default_factory=list)
    told: list[str] = field(default_factory=list)
    found: dict[int, str] = field(default_factory=dict)

    def assign(self) -> dict[int, str]:
        """Return the known column of each position that has one."""
        self.dropped = {self._position(heading, "drop") for heading in self.mapping.drop}
        for known, listed in self.mapping.columns.items():
            self._apply(known, listed)
        self._recognise()
        return self.found

    def _apply(self, known: str, listed: Sequence[str]) -> None:
        places = [self._position(heading, f"[columns] {known}") for heading in listed]
        for heading, at in zip(listed, places, strict=True):
            if at in self.dropped:
                raise self._wrong(f"[columns] {known}", f'"{heading}" is dropped at drop = [...]')
            if at in self.found:
                other = self.found[at]
                raise self._wrong(
                    f"[columns] {known}", f'"{heading}" is given twice, first to {other}'
                )
            self.found[at] = known
        self.merged.append(places)

    def _position(self, heading: str, place: str) -> int:
        at = self.names.find(heading)
        if at is None:
            unique = tuple(self.names.unique[at] for at in self.names.positions)
            hint = "" if any(map(words.looks_like_value, unique)) else _nearest(heading, unique)
            raise self._wrong(place, f'no heading "{heading}" in {self.path}{hint}')
        return at

    def _wrong(self, place: str, trouble: str) -> InputError:
        return InputError(f"{self.mapping.path}: {place}: {trouble}")

    def _recognise(self) -> None:
        taken = set(self.mapping.columns)
        claims: dict[str, list[int]] = {}
        undecided: list[tuple[int, tuple[str, ...]]] = []
        last: list[tuple[words.LastChoice, int]] = []
        for at in self.names.positions:
            possible = words.meanings(self.names.tidied[at], self.kind)
            if at in self.found or at in self.dropped or not possible:
                continue
            choice = None
            if self.kind is CUSTOMERS:
                choice = words.known_form(self.names.tidied[at], words.last_choices())
            if choice is not None:
                last.append((choice, at))
            elif len(possible) > 1:
                undecided.append((at, possible))
            elif possible[0] not in taken:
                claims.setdefault(possible[0], []).append(at)
        for at, possible in undecided:
            free = [known for known in possible if known not in claims and known not in taken]
            claims.setdefault(free[0] if free else possible[-1], []).append(at)
        self._choose_last(last, {*claims, *taken})
        for known, places in claims.items():
            if known not in taken:
                self.found[self._only(known, places)] = known

    def _choose_last(self, last: Sequence[tuple[words.LastChoice, int]], meant: set[str]) -> None:
        """Give columns that nothing else means to the headings that count only then."""
        for choice, at in sorted(last, key=lambda choice: choice[0].rank):
            if choice.column in meant or (choice.unless and self._has(choice.unless)):
                continue
            meant.add(choice.column)
            self.found[at] = choice.column
            self.told.append(f'"{self.names.unique[at]}" is taken for {choice.column}.')

    def _has(self, meaning: str) -> bool:
        """Return whether a column of the file has such a meaning in a loan book."""
        tidied = (self.names.tidied[at] for at in self.names.positions)
        return any(
            words.known_form(heading, words.loan_headings()) == meaning for heading in tidied
        )

    def _only(self, known: str, places: Sequence[int]) -> int:
        if len(places) == 1:
            return places[0]
        exact = [at for at in places if self.names.tidied[at] == known]
        shown = [f'"{self.names.unique[at]}"' for at in places]
        if len(exact) != 1:
            listed = " and ".join(shown)
            raise InputError(
                f"{self.path}: {listed} both mean {known}; say which in a mapping file, under "
                f"[columns]: {known} = {shown[0]} (or [{', '.join(shown)}] to merge them)"
            )
        others = ", ".join(name for name in shown if name != f'"{self.names.unique[exact[0]]}"')
        self.told.append(f'"{known}" is taken for {known}; {others} is only carried through.')
        return exact[0]

    def in_order(self, kept: list[int]) -> list[int]:
        """Return positions with those that the mapping merges in the order it names them."""
        ordered = list(kept)
        for places in self.merged:
            slots = sorted(kept.index(at) for at in places)
            for slot, at in zip(slots, places, strict=True):
                ordered[slot] = at
        return ordered

    def findings(self, kept: Sequence[int]) -> list[str]:
        """Return the findings about meanings, those about consent first."""
        carried = [at for at in kept if at not in self.found and self.names.tidied[at]]
        consent = [at for at in carried if _touches_consent(self.names.tidied[at])]
        findings = [
            f'"{self.names.unique[at]}" seems to be about consent but is not understood: it is '
            "only carried through. If consent depends on it, name it in a mapping file."
            for at in consent
        ]
        findings += self.told
        for at in carried:
            near = words.near_meaning(self.names.tidied[at], self.kind)
            if near and at not in consent and near not in self.found.values():
                name = self.names.unique[at]
                findings.append(
                    f'"{name}" is only carried through; if it means {near}, write '
                    f'{near} = "{name}" under [columns] of a mapping file.'
                )
        return findings + self._about_defaults()

    def loan_status(self, kept: Sequence[int]) -> int | None:
        """Return the index, among the columns kept, of the one with a loan's status."""
        if self.mapping.loan_status:
            at = self._position(self.mapping.loan_status, "loan_status")
            return kept.index(at) if at in kept else None
        named = words.loan_headings()
        indices = [
            index
            for index, at in enumerate(kept)
            if words.known_form(self.names.tidied[at], named) == "status"
        ]
        plain = [
            index for index in indices if words.fold(self.names.tidied[kept[index]]) != "status"
        ]
        return next(iter(plain or indices), None)

    def _about_defaults(self) -> list[str]:
        return [
            f"The default for {known} is not used: the file has a column of that meaning."
            for known in self.mapping.defaults
            if known in self.found.values()
        ]


def _touches_consent(heading: str) -> bool:
    folded = words.fold(heading)
    return any(hint in folded for hint in CONSENT_HINTS)


def _nearest(heading: str, unique: tuple[str, ...]) -> str:
    by_fold = {words.fold(name): name for name in unique}
    hint = nearest(words.fold(heading), tuple(by_fold))
    for folded, name in by_fold.items():
        if f'"{folded}"' in hint:
            return f'; did you mean "{name}"?'
    return f"; it has {', '.join(unique[:40])}"


def _missing(
    path: Path, names: _Names, found: dict[int, str], required: str, kind: InputKind
) -> InputError:
    """Return the error that no column means a required one, with a heading that may be meant."""
    seen = [names.unique[at] for at in names.positions if at not in found]
    near = next((name for name in seen if words.near_meaning(name, kind) == required), None)
    if required == "customer_id":
        near = near or next((name for name in seen if _like_an_id(name, kind)), None)
    example = near if near and not words.looks_like_value(near) else "Their Heading"
    text = (
        f"{path}: no {required} column; the headings are: {names.listed()} - "
        f'name the column in a mapping file: [columns] {required} = "{example}"'
    )
    if required not in kind.personal:
        text += f", or one value for all rows: [defaults] {required} = ..."
    return InputError(text)


def _like_an_id(heading: str, kind: InputKind) -> bool:
    folded = words.fold(heading)
    return any(part in folded for part in ("cust", "client", "borrower", "member", "cif")) or (
        folded.endswith(("id", "no", "number", "ref")) and folded not in kind.columns
    )


def _columns(
    kept: Sequence[int], names: _Names, found: dict[int, str], kind: InputKind
) -> tuple[SourceColumn, ...]:
    taken = set(found.values())
    columns: list[SourceColumn] = []
    for at in kept:
        heading, known = names.unique[at], found.get(at)
        output = known or _carried_name(heading, taken, kind)
        taken.add(output.casefold())
        columns.append(SourceColumn(heading=heading, known=known, output=output))
    return tuple(columns)


def _carried_name(heading: str, taken: set[str], kind: InputKind) -> str:
    folded = heading.casefold()
    reserved = folded in kind.columns or words.is_output_name(heading)
    stem = f"input_{heading}" if reserved else heading
    name, number = stem, 2
    while name.casefold() in taken:
        name, number = f"{stem}_{number}", number + 1
    return name


def _count(number: int, what: str) -> str:
    return f"1 {what}" if number == 1 else f"{number} {what}s"
