"""Merge rows: the rows of one `customer_id` become one customer, for books with a row per loan.

Identifiers that agree are taken; one that differs between the rows is not used, and named among
the problems. The exposure of open loans is summed. The screening run stores the rows and decides in
which portions they are merged.
"""

from __future__ import annotations

import csv
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nightscreen.reading.columns import fold
from nightscreen.schemas.columns import REQUESTED, Flaw
from nightscreen.schemas.outcomes import LoanStanding
from nightscreen.schemas.rows import CUSTOMER, EXTRA_PREFIX, NAIRA, Action, Problem, SourceColumn
from nightscreen.schemas.shipped import DATA
from nightscreen.values.validators import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    Mask = NDArray[np.bool_]

STATUSES_FILE = DATA / "loan_statuses.csv"

DIFFERS = Finding(
    "differs_between_rows",
    "The customer's rows differ in it: it is not used; correct the rows that are wrong.",
    Action.INVALID,
)
DIFFERS_FIRST = Finding(
    "differs_between_rows",
    "The customer's rows differ in it: the first row that has it counts.",
    Action.WARNED,
)
PARTLY_UNKNOWN = Finding(
    "exposure_partly_unknown",
    "Some open loans of the customer have no amount: the exposure is the sum of the others.",
    Action.WARNED,
)
STATUS_UNKNOWN = Finding(
    "loan_status_unknown",
    "The loan's status is no known word: the loan counts as open.",
    Action.WARNED,
)

_IDENTIFIERS = {
    "bvn": (("bvn",), Flaw.BVN),
    "account_number": (
        ("account_number", "bank_code", "bank_name"),
        Flaw.ACCOUNT | Flaw.BANK | Flaw.BANK_UNKNOWN,
    ),
    "phone": (("phone",), Flaw.PHONE),
    "email": (("email",), Flaw.EMAIL),
    "domain": (("domain",), Flaw.DOMAIN),
    "image_url": (("image_url",), Flaw.IMAGE),
}
_UNUSED = {
    "bvn": Flaw.BVN,
    "account_number": Flaw.ACCOUNT,
    "phone": Flaw.PHONE,
    "email": Flaw.EMAIL,
    "domain": Flaw.DOMAIN,
    "image_url": Flaw.IMAGE,
}
_NAMES = ("first_name", "middle_name", "last_name", "full_name")
_CONSENT = (
    *("consent_reference", "consent_purpose", "consent_channel"),
    *("consented_at", "consent_expires_at", "consent_withdrawn_at"),
)
_MOST_PROBLEMS = 100_000


def status_name(columns: Sequence[SourceColumn], place: int | None) -> str | None:
    """Return the row column with a loan's status; None if the file has none."""
    if place is None or columns[place].known is not None:
        return None
    return f"{EXTRA_PREFIX}{columns[place].output}"


@lru_cache(maxsize=1)
def loan_statuses() -> dict[str, bool]:
    """Return folded status words, and whether such a loan is open."""
    with STATUSES_FILE.open(encoding="utf-8", newline="") as file:
        return {fold(row["word"]): row["open"] == "yes" for row in csv.DictReader(file)}


@lru_cache(maxsize=1)
def loan_standings() -> dict[str, LoanStanding]:
    """Return folded status words, with the status they mean."""
    with STATUSES_FILE.open(encoding="utf-8", newline="") as file:
        return {fold(row["word"]): LoanStanding(row["outcome"]) for row in csv.DictReader(file)}


class _Groups:
    """Rows sorted by customer, each customer's in the order of the file."""

    def __init__(self, rows: pa.Table) -> None:
        numbers = rows[CUSTOMER].to_numpy()
        order = np.argsort(numbers, kind="stable")
        self.rows = rows.take(pa.array(order)).combine_chunks()
        ordered = numbers[order]
        self.starts = np.flatnonzero(np.diff(ordered, prepend=-1))
        self.of_row = np.repeat(
            np.arange(len(self.starts)), np.diff(self.starts, append=len(ordered))
        )
        self.lines: NDArray[np.int64] = self.rows["line"].to_numpy()

    def first(self, wanted: Mask) -> NDArray[np.int64]:
        """Return each customer's first row of those wanted, -1 where it has none."""
        found = np.full(len(self.starts), -1, np.int64)
        indices = np.flatnonzero(wanted)
        groups, at = np.unique(self.of_row[indices], return_index=True)
        found[groups] = indices[at]
        return found

    def differing(self, names: Sequence[str], wanted: Mask, first: NDArray[np.int64]) -> Mask:
        """Return which customers have wanted rows that say otherwise than the first of them."""
        texts = [self.rows[name].cast(pa.string()) for name in names]
        options = pc.JoinOptions(null_handling="replace", null_replacement="")
        joined = pc.call_function("binary_join_element_wise", [*texts, pa.scalar("\x1f")], options)
        codes = joined.combine_chunks().dictionary_encode().indices.to_numpy()
        other = wanted & (codes != codes[np.maximum(first, 0)][self.of_row])
        found = np.zeros(len(self.starts), bool)
        found[self.of_row[other]] = True
        return found

    def present(self, name: str) -> Mask:
        """Return which rows have a value."""
        found: Mask = pc.is_valid(self.rows[name]).to_numpy()
        return found


def merge_rows(rows: pa.Table, status: str | None) -> tuple[pa.Table, list[Problem]]:
    """Return one row for each customer, in the order of their numbers, and what was found.

    Args:
        rows: whole customers: all rows of each, in the order of the file, with `CUSTOMER`.
        status: the column with a loan's status; None: every loan is open.
    """
    groups = _Groups(rows)
    problems: list[Problem] = []
    columns = {name: groups.rows[name].take(pa.array(groups.starts)) for name in rows.column_names}
    flaws = np.zeros(len(groups.starts), np.int32)
    for name in _IDENTIFIERS:
        flaws |= _merge_identifier(groups, name, columns, problems)
    for name in ("date_of_birth", *REQUESTED):
        _merge_value(groups, name, columns, problems)
    _merge_names(groups, columns, problems)
    flaws |= _merge_consent(groups, columns)
    columns["exposure"] = _merged_exposure(groups, status, problems)
    columns["flaws"] = pa.array(flaws)
    merged = pa.table(columns, schema=rows.schema).drop_columns([CUSTOMER])
    return merged, sorted(problems, key=lambda problem: problem.line)


def _found(groups: _Groups, which: Mask, column: str, finding: Finding) -> Iterator[Problem]:
    """Yield a problem for each customer concerned, at its first row."""
    for line in groups.lines[groups.starts[which]].tolist():
        yield Problem(line, column, finding.code, finding.hint, finding.action)


def _take(groups: _Groups, name: str, indices: NDArray[np.int64]) -> pa.ChunkedArray:
    return groups.rows[name].take(pa.array(indices, mask=indices < 0))


def _merge_identifier(
    groups: _Groups, name: str, columns: dict[str, pa.ChunkedArray], problems: list[Problem]
) -> NDArray[np.int32]:
    """Merge an identifier in place and return the flaws it leaves."""
    parts, bits = _IDENTIFIERS[name]
    flaws = groups.rows["flaws"].to_numpy() & int(bits)
    present = groups.present(name)
    if name == "account_number":
        banked = groups.present("bank_code") | groups.present("bank_name")
        there_whole = present & banked
    else:
        there_whole = present
    sound = there_whole & (flaws == 0)
    first = groups.first(sound)
    for fallback in (there_whole, present):
        first = np.where(first < 0, groups.first(fallback), first)
    for part in parts:
        columns[part] = _take(groups, part, first)
    if name == "account_number":
        named = groups.first(groups.present("bank_code") | groups.present("bank_name"))
        bank = np.where(first < 0, named, first)
        for part in ("bank_code", "bank_name"):
            columns[part] = _take(groups, part, bank)
    left: NDArray[np.int32] = np.where(first < 0, 0, flaws[first]).astype(np.int32)
    compared = ("account_number", "bank_code") if name == "account_number" else (name,)
    differing = groups.differing(compared, sound, groups.first(sound))
    left[differing] |= int(_UNUSED[name])
    problems.extend(_found(groups, differing, name, DIFFERS))
    return left


def _merge_value(
    groups: _Groups, name: str, columns: dict[str, pa.ChunkedArray], problems: list[Problem]
) -> None:
    """Take the value of the first row that has any; none where rows contradict each other."""
    present = groups.present(name)
    first = groups.first(present)
    differing = groups.differing((name,), present, first)
    columns[name] = _take(groups, name, np.where(differing, -1, first))
    problems.extend(_found(groups, differing, name, DIFFERS))


def _merge_names(
    groups: _Groups, columns: dict[str, pa.ChunkedArray], problems: list[Problem]
) -> None:
    """Take the names of the first row that has any."""
    present = np.zeros(groups.rows.num_rows, bool)
    for name in _NAMES:
        present |= groups.present(name)
    first = groups.first(present)
    for name in _NAMES:
        columns[name] = _take(groups, name, first)
    differing = groups.differing(_NAMES, present, first)
    problems.extend(_found(groups, differing, "full_name", DIFFERS_FIRST))


def _merge_consent(groups: _Groups, columns: dict[str, pa.ChunkedArray]) -> NDArray[np.int32]:
    """Take the consent given last; a withdrawal of any row since then holds for the customer."""
    given = groups.rows["consented_at"].cast(pa.int64())
    instants = pc.fill_null(given, -(2**62)).to_numpy()
    newest = np.maximum.reduceat(instants, groups.starts)
    newest_rows = groups.present("consented_at") & (instants == newest[groups.of_row])
    first = groups.first(newest_rows)
    first_reference = groups.first(groups.present("consent_reference"))
    taken = np.where(first < 0, first_reference, first)
    for name in _CONSENT:
        columns[name] = _take(groups, name, taken)
    withdrawn = groups.rows["consent_withdrawn_at"].cast(pa.int64())
    ended = pc.fill_null(withdrawn, -(2**62)).to_numpy()
    since = groups.first((ended >= newest[groups.of_row]) & groups.present("consent_withdrawn_at"))
    columns["consent_withdrawn_at"] = _take(
        groups, "consent_withdrawn_at", np.where(since < 0, taken, since)
    )
    flaws = groups.rows["flaws"].to_numpy() & int(Flaw.CONSENT)
    return np.bitwise_or.reduceat(flaws, groups.starts).astype(np.int32)


def _merged_exposure(
    groups: _Groups, status: str | None, problems: list[Problem]
) -> pa.ChunkedArray:
    """Return the sum of each customer's open loans, null where none of them has an amount."""
    open_ = np.ones(groups.rows.num_rows, bool)
    if status is not None:
        words = groups.rows[status].combine_chunks().dictionary_encode()
        known = [loan_statuses().get(fold(word)) for word in words.dictionary.to_pylist()]
        says = np.array([True if is_open is None else is_open for is_open in known] + [True], bool)
        strange = np.array([is_open is None for is_open in known] + [False], bool)
        codes = pc.fill_null(words.indices, len(known)).to_numpy()
        open_ = says[codes]
        for line in groups.lines[strange[codes]][:_MOST_PROBLEMS].tolist():
            column = status.removeprefix(EXTRA_PREFIX)
            problems.append(
                Problem(line, column, STATUS_UNKNOWN.code, STATUS_UNKNOWN.hint, Action.WARNED)
            )
    scaled = pc.multiply(groups.rows["exposure"], pa.scalar(100, pa.decimal128(3, 0)))
    kobo = pc.fill_null(scaled.cast(pa.decimal128(38, 0), safe=False).cast(pa.int64()), 0)
    present = groups.present("exposure")
    total = np.add.reduceat(np.where(open_ & present, kobo.to_numpy(), 0), groups.starts)
    lacks = np.logical_or.reduceat(open_ & ~present, groups.starts)
    known_some = np.logical_or.reduceat(open_ & present, groups.starts)
    if present.any():
        problems.extend(_found(groups, lacks & known_some, "exposure", PARTLY_UNKNOWN))
    whole = pa.array(total, mask=lacks & ~known_some).cast(pa.decimal128(19, 0))
    naira = pc.multiply(whole, pa.scalar("0.01").cast(pa.decimal128(3, 2))).cast(NAIRA)
    return pa.chunked_array([naira])
