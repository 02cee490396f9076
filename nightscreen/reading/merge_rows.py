"""Merge the rows of one `customer_id` into one customer, for loan books with a row per loan.

An identifier that differs between the rows is not used and is reported as a problem. The exposure
of open loans is summed. The screening run stores the rows and merges them in portions.
"""

from __future__ import annotations

from decimal import Decimal
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from nightscreen.reading.columns import fold
from nightscreen.schemas.columns import NAME_FIELDS, REQUESTED, Flaw
from nightscreen.schemas.outcomes import LoanStanding
from nightscreen.schemas.rows import CUSTOMER, EXTRA_PREFIX, Action
from nightscreen.schemas.shipped import DATA, read_rows
from nightscreen.values.issues import Issue

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from nightscreen.config.parameters import ScreenBatch
    from nightscreen.config.settings import Settings
    from nightscreen.reading.mapping_file import Mapping
    from nightscreen.schemas.rows import Problem, SourceColumn

Row: TypeAlias = dict[str, Any]  # a row of `row_schema` as Python values

STATUSES_FILE = DATA / "loan_statuses.csv"

DIFFERS = Issue(
    "differs_between_rows",
    "The customer's rows differ in it: it is not used; correct the rows that are wrong.",
    Action.INVALID,
)
DIFFERS_FIRST = Issue(
    "differs_between_rows",
    "The customer's rows differ in it: the first row that has it counts.",
    Action.WARNED,
)
PARTLY_UNKNOWN = Issue(
    "exposure_partly_unknown",
    "Some open loans of the customer have no amount: the exposure is the sum of the others.",
    Action.WARNED,
)
STATUS_UNKNOWN = Issue(
    "loan_status_unknown",
    "The loan's status is no known word: the loan counts as open.",
    Action.WARNED,
)

_IDENTIFIERS = {
    "bvn": int(Flaw.BVN),
    "account_number": int(Flaw.ACCOUNT | Flaw.BANK | Flaw.BANK_UNKNOWN),
    "phone": int(Flaw.PHONE),
    "email": int(Flaw.EMAIL),
    "domain": int(Flaw.DOMAIN),
    "image_url": int(Flaw.IMAGE),
}
"""Bits of `Flaw` that an identifier can have; as plain numbers, which are quick to compare."""
_ACCOUNT, _CONSENT_FLAW = int(Flaw.ACCOUNT), int(Flaw.CONSENT)
_CONSENT = (
    *("consent_reference", "consent_purpose", "consent_channel"),
    *("consented_at", "consent_expires_at", "consent_withdrawn_at"),
)
_MOST_PROBLEMS = 100_000  # bounds memory if all of a column's statuses are unknown


def status_name(columns: Sequence[SourceColumn], place: int | None) -> str | None:
    """Return the column of a row batch with a loan's status; None if the file has none."""
    if place is None or columns[place].known is not None:
        return None
    return f"{EXTRA_PREFIX}{columns[place].output}"


@cache
def loan_statuses() -> dict[str, bool]:
    """Return whether a loan is open, by folded status."""
    return {fold(row["word"]): row["open"] == "yes" for row in read_rows(STATUSES_FILE)}


@cache
def loan_standings() -> dict[str, LoanStanding]:
    """Return the standing of a loan, by folded status."""
    rows = read_rows(STATUSES_FILE)
    return {fold(row["word"]): LoanStanding(row["outcome"]) for row in rows}


@lru_cache(maxsize=1000)  # a book has a row for each loan and day, and a dozen statuses
def standing_of(status: str) -> LoanStanding | None:
    """Return the standing of a loan with this status; None if it is unknown."""
    return loan_standings().get(fold(status))


def merges_rows(parameters: ScreenBatch, settings: Settings, mapping: Mapping | None) -> bool:
    """Return whether a file's rows are merged: an option, a setting or its mapping says so."""
    by_mapping = mapping is not None and mapping.merge_rows
    return parameters.merge_rows or settings.merge_rows or by_mapping


def merge_rows(rows: pa.Table, status: str | None) -> tuple[pa.Table, list[Problem]]:
    """Return one row for each customer, in the order of their numbers, and the problems.

    All rows of a customer must be there, with `CUSTOMER`. Without `status`, the column of loans'
    statuses, every loan is open.
    """
    customers: dict[int, list[Row]] = {}
    for row in rows.to_pylist():
        customers.setdefault(row.pop(CUSTOMER), []).append(row)
    problems: list[Problem] = []
    merged = [_merged(customers[number], status, problems) for number in sorted(customers)]
    schema = rows.schema.remove(rows.schema.get_field_index(CUSTOMER))
    return pa.Table.from_pylist(merged, schema), sorted(problems, key=lambda problem: problem.line)


def _merged(rows: list[Row], status: str | None, problems: list[Problem]) -> Row:
    """Return the rows of a customer as one; carried columns are those of the first row."""
    customer = dict(rows[0])

    def report(column: str, issue: Issue) -> None:
        problems.append(issue.at(customer["line"], column))

    flaws = 0
    for name, bits in _IDENTIFIERS.items():
        flaws |= _merge_identifier(rows, name, bits, customer, report)
    for name in ("date_of_birth", *REQUESTED):
        values = [row[name] for row in rows if row[name] is not None]
        customer[name] = values[0] if len(set(values)) == 1 else None
        if len(set(values)) > 1:
            report(name, DIFFERS)
    names = [fields for row in rows if any(fields := [row[name] for name in NAME_FIELDS])]
    if names:
        customer.update(zip(NAME_FIELDS, names[0], strict=True))
    if any(fields != names[0] for fields in names):
        report("full_name", DIFFERS_FIRST)
    _merge_consent(rows, customer)
    for row in rows:
        flaws |= row["flaws"] & _CONSENT_FLAW
    customer["flaws"] = flaws
    customer["exposure"] = _merged_exposure(rows, status, problems, report)
    return customer


def _merge_identifier(
    rows: list[Row], name: str, bits: int, customer: Row, report: Callable[[str, Issue], None]
) -> int:
    """Merge an identifier into the customer; return its remaining flaws.

    Values without flaws come first. An account comes with its bank; an account without a bank is
    the last choice.
    """
    is_account = name == "account_number"
    present = [row for row in rows if row[name]]
    complete = [row for row in present if not is_account or row["bank_code"] or row["bank_name"]]
    valid = [row for row in complete if not row["flaws"] & bits]
    chosen = next(iter(valid or complete or present), {})
    customer[name] = chosen.get(name)
    if is_account:
        with_bank = (row for row in rows if row["bank_code"] or row["bank_name"])
        bank = chosen or next(with_bank, {})
        customer |= {part: bank.get(part) for part in ("bank_code", "bank_name")}
    flaws: int = chosen.get("flaws", 0) & bits
    if len({(row[name], row["bank_code"] if is_account else None) for row in valid}) > 1:
        report(name, DIFFERS)
        flaws |= _ACCOUNT if is_account else bits
    return flaws


def _merge_consent(rows: list[Row], customer: Row) -> None:
    """Take the latest consent; a later withdrawal in any row applies to the customer."""
    given = [row for row in rows if row["consented_at"]]
    newest = max((row["consented_at"] for row in given), default=None)
    last = [row for row in given if row["consented_at"] == newest]
    last += [row for row in rows if row["consent_reference"]]
    for name in _CONSENT:
        customer[name] = last[0][name] if last else None
    ends = (row["consent_withdrawn_at"] for row in rows if row["consent_withdrawn_at"])
    since = (ended for ended in ends if newest is None or ended >= newest)
    customer["consent_withdrawn_at"] = next(since, customer["consent_withdrawn_at"])


def _merged_exposure(
    rows: list[Row],
    status: str | None,
    problems: list[Problem],
    report: Callable[[str, Issue], None],
) -> Decimal | None:
    """Return the sum of a customer's open loans; None if none of them has an amount."""
    amounts: list[Decimal | None] = []
    for row in rows:
        word = row[status] if status else None
        is_open = None if word is None else loan_statuses().get(fold(word))
        if status and word is not None and is_open is None and len(problems) < _MOST_PROBLEMS:
            problems.append(STATUS_UNKNOWN.at(row["line"], status.removeprefix(EXTRA_PREFIX)))
        if is_open is not False:
            amounts.append(row["exposure"])
    known = [amount for amount in amounts if amount is not None]
    if known and len(known) < len(amounts):
        report("exposure", PARTLY_UNKNOWN)
    return sum(known, Decimal(0)) if known or not amounts else None
