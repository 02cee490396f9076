"""Reading a file of one-time passwords: which rows can be sent on, and what is wrong with others.

A password is in memory alone, and only until it is sent: no finding, quarantine or repr holds one.
`confirmations` decides whether a customer may supply one at all.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from nightscreen.reading.columns import fold
from nightscreen.reading.open_file import open_source
from nightscreen.schemas.errors import InputError
from nightscreen.schemas.rows import Action, Problem, RefusedRow, SourceColumn
from nightscreen.values.issues import bare_digits, is_absent

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from nightscreen.reading.mapping_file import Mapping
    from nightscreen.reading.open_file import TableSource
    from nightscreen.schemas.rows import SourceBatch

OTP_HEADINGS = frozenset(
    {"otp", "otpcode", "otps", "onetimepassword", "onetimepasscode", "onetimepin", "passcode"}
)
QUARANTINED = (SourceColumn("customer_id", "customer_id", "customer_id"),)
"""All that the quarantine of such a file shows of a row: nothing that could be a password."""

ID_MISSING = ("customer_id_missing", "The row has no customer_id; nothing was sent.")
OTP_MISSING = (
    "otp_missing",
    "The row has no one-time password; nothing was sent. Leave customers out who supplied none.",
)
REPEATED = (
    "customer_id_repeated",
    "The customer is in the file more than once: which password is meant? Nothing was sent.",
)
BROKEN = "The row could not be split into the columns of the file; nothing was sent."
_DIGITS = re.compile(r"[0-9]+")


@dataclass(frozen=True, slots=True)
class Supplied:
    """One customer's password as the file has it."""

    line: int
    customer_id: str
    otp: str = field(repr=False)


@dataclass(slots=True)
class OtpFile:
    """The contents of a file of passwords: rows that can be sent on, and findings."""

    supplied: list[Supplied] = field(default_factory=list)
    refused: list[RefusedRow] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    read: int = 0  # rows of the file; always those supplied plus those refused

    def refuse(self, line: int, customer_id: str, column: str, code: str, hint: str) -> None:
        """Refuse a row."""
        self.refused.append(RefusedRow(line, column, code, hint, (customer_id,)))
        self.problems.append(Problem(line, column, code, hint, Action.REFUSED))


def otp_malformed(digits: int) -> tuple[str, str]:
    """Return the finding about a password that cannot be one."""
    hint = (
        f"A one-time password has {digits} digits; nothing was sent. A spreadsheet may have taken "
        "leading zeros off: format the column as text. If the service's have another length, set "
        "NIGHTSCREEN_BVN_CONSENT__OTP_DIGITS."
    )
    return "otp_malformed", hint


def tidy_otp(text: str, digits: int) -> str | None:
    """Return a password without blanks, dashes and spreadsheet marks; None if it is none."""
    bare = bare_digits(text)
    return bare if len(bare) == digits and _DIGITS.fullmatch(bare) else None


def open_otps(path: Path, *, mapping: Mapping | None = None) -> TableSource:
    """Open a file of passwords.

    Raises:
        InputError: it cannot be read, or no column of it is the password.
    """
    source = open_source(path, mapping=mapping)
    _otp_column(source)
    return source


def _otp_column(source: TableSource) -> int:
    columns = source.header.columns
    indices = [
        index for index, column in enumerate(columns) if fold(column.heading) in OTP_HEADINGS
    ]
    if len(indices) != 1:
        trouble = "no column otp" if not indices else "more than one column of passwords"
        raise InputError(f"{source.path}: {trouble}; the file needs customer_id,otp")
    return indices[0]


def read_otps(path: Path, digits: int, *, mapping: Mapping | None = None) -> OtpFile:
    """Read a file of passwords.

    Args:
        path: the file; columns `customer_id` and `otp`.
        digits: how many a password has.
        mapping: what the user says about its headings.

    Raises:
        InputError: it cannot be read as such a file.
    """
    source = open_otps(path, mapping=mapping)
    found = OtpFile()
    otp_at = _otp_column(source)
    id_at = next(
        index for index, column in enumerate(source.header.columns) if column.known == "customer_id"
    )
    rows: list[tuple[int, str, str]] = []
    for batch in source.batches():
        rows += _rows(batch, id_at, otp_at)
        for broken in batch.broken:
            found.refuse(broken.line, "", broken.column, broken.code, BROKEN)
    found.read = len(rows) + len(found.refused)
    number = Counter(customer_id for _, customer_id, _ in rows)
    for line, customer_id, text in rows:
        _judge(found, line, customer_id, text, digits, repeated=number[customer_id] > 1)
    found.problems += _ignored_columns(source, {id_at, otp_at})
    return found


def _rows(batch: SourceBatch, id_at: int, otp_at: int) -> Iterator[tuple[int, str, str]]:
    ids = batch.columns.column(id_at).to_pylist()
    otps = batch.columns.column(otp_at).to_pylist()
    for line, customer_id, otp in zip(batch.lines, ids, otps, strict=True):
        yield line, (customer_id or "").strip(), (otp or "").strip()


def _judge(
    found: OtpFile, line: int, customer_id: str, text: str, digits: int, *, repeated: bool
) -> None:
    otp = tidy_otp(text, digits)
    if not customer_id:
        found.refuse(line, "", "customer_id", *ID_MISSING)
    elif repeated:
        found.refuse(line, customer_id, "customer_id", *REPEATED)
    elif otp is not None:
        found.supplied.append(Supplied(line, customer_id, otp))
    elif not text or is_absent(bare_digits(text)):
        found.refuse(line, customer_id, "otp", *OTP_MISSING)
    else:
        shown = (
            customer_id if tidy_otp(customer_id, digits) is None else ""
        )  # columns may be swapped
        found.refuse(line, shown, "otp", *otp_malformed(digits))


def _ignored_columns(source: TableSource, used: set[int]) -> Iterator[Problem]:
    """Report columns that are neither customer nor password; they are not read and not stored."""
    for index, column in enumerate(source.header.columns):
        if index not in used:
            yield Problem(
                1,
                f"column {index + 1}" if column.known is None else column.known,
                "column_left_aside",
                "The file needs customer_id and otp only; this column was not read.",
                Action.WARNED,
            )
