"""What is the history with other lenders? (specification, area B, ecosystem)."""

from __future__ import annotations

from decimal import Decimal
from operator import itemgetter
from typing import TYPE_CHECKING, Any, get_type_hints

from nightscreen.checks.declaration import Column, Compare, Days, Declaration, Kind, Tone
from nightscreen.schemas.answers import Count, Day, EcosystemRecord, Instant, Number, Text
from nightscreen.schemas.checks import IdentityKind, Outcome
from nightscreen.schemas.columns import NAME_FIELDS, names_of
from nightscreen.schemas.requests import VERIFICATION, Request, segment
from nightscreen.values.names import CONTRADICTS, GRADES, NameMatch, match_names
from nightscreen.values.whose import names_the_same

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nightscreen.checks.declaration import Found, Limits, Row
    from nightscreen.schemas.checks import Lookup

_KINDS: dict[object, Kind] = {
    Text: Kind.TEXT,
    Count: Kind.COUNT,
    Number: Kind.AMOUNT,
    Instant: Kind.INSTANT,
    Day: Kind.DAY,
}
FIELDS = tuple(EcosystemRecord.model_fields)[1:]
"""The fields of a record, all but what the specification does not name (`extra`)."""
_values = itemgetter(*FIELDS)
_NOTHING = (None,) * (len(FIELDS) + 3)
_READ_AS = get_type_hints(EcosystemRecord, include_extras=True)
_COMPARED = {
    **dict.fromkeys(("first_name", "last_name", "date_of_birth"), Compare.IDENTIFYING),
    **dict.fromkeys(
        ("past_due_loans", "delayed_paid_loans", "past_due_loan_amount_due"),
        Compare.MORE_IS_WORSE,
    ),
    **dict.fromkeys(
        (
            *("lenders", "loans", "settled_loans", "running_loans", "credit_delinquency"),
            *(f"loan_amount_{each}" for each in ("minimum", "maximum", "average")),
        ),
        Compare.PLAIN,
    ),
}
"""Logins, age and when the record was processed change with every lookup, and are left out."""
OF_THE_BORROWER = (
    *("first_name", "last_name", "date_of_birth", "age", "gender"),
    *("phone_number", "bvn_phone_number", "email", "extra"),
)
"""Fields that say who the borrower is."""


def _request(lookup: Lookup) -> Request:
    """Build a borrower history lookup (specification, area B: `/ecosystem/:bvn`)."""
    path = f"{VERIFICATION}/ecosystem/{segment(lookup.identity)}"
    return Request("ecosystem", "GET", path, None, asked=lookup.identity)


def _is_another(asked: str, record: EcosystemRecord) -> bool:
    return not names_the_same(IdentityKind.BVN, asked, record.bvn)


def _judge(row: Row, found: Sequence[Found], _limits: Limits) -> tuple[Any, ...]:
    record: EcosystemRecord | None = found[0][1] if found else None
    if record is None:
        return ("found" if found else "not_found", *_NOTHING)
    name = _name(row, record)
    return (
        "found",
        *_values(record.__dict__),
        record.extra_json() if record.extra else None,
        None if name is None else name.grade,
        _is_born_then(row, record),
    )


def _name(row: Row, record: EcosystemRecord) -> NameMatch | None:
    theirs = " ".join(part for part in (record.first_name, record.last_name) if part)
    return match_names(names_of(row), theirs or None)


def _is_born_then(row: Row, record: EcosystemRecord) -> bool | None:
    """Compare two dates of birth; None where one is missing."""
    ours, theirs = row["date_of_birth"], record.date_of_birth
    return None if ours is None or theirs is None else bool(ours == theirs)


def _hidden(record: EcosystemRecord, rows: Sequence[Row]) -> tuple[str, ...]:
    """Return who the borrower is, unless a row agrees with the record."""
    for row in rows:
        name = _name(row, record)
        is_other = name is not None and name.grade in CONTRADICTS
        if not is_other and _is_born_then(row, record) is not False:
            return ()
    return OF_THE_BORROWER


def _withheld(row: Row) -> tuple[str, ...]:
    """Return who the borrower is, where the record contradicts the customer."""
    contradicted = row.get("ecosystem_name_match") in CONTRADICTS
    if contradicted or row.get("ecosystem_dob_match") is False:
        return tuple(f"ecosystem_{name}" for name in ("bvn", *OF_THE_BORROWER))
    return ()


ECOSYSTEM = Declaration(
    name="ecosystem",
    title="Credit history",
    asked_by=(IdentityKind.BVN,),
    needs_consent=True,
    request=_request,
    read=EcosystemRecord.found_in,
    is_another=_is_another,
    names_somebody=True,
    ages={Outcome.FOUND: Days(30, 3), Outcome.NOT_FOUND: Days(14, 1)},
    naira=Decimal(25),
    max_in_flight=8,
    timeout_s=30,
    is_default=True,
    bears_balance=True,
    order=3,
    first_night_hits=0.6,
    first_night_seconds=1.5,
    statuses={"found": Tone.GOOD, "not_found": Tone.DOUBTFUL},
    columns=(
        *(
            Column(f"ecosystem_{name}", _KINDS[_READ_AS[name]], _COMPARED.get(name))
            for name in FIELDS
        ),
        Column("ecosystem_extra", Kind.TEXT),
        Column("ecosystem_name_match", Kind.WORD, Compare.RANK, GRADES),
        Column("ecosystem_dob_match", Kind.FLAG, Compare.RANK, ("true", "false")),
    ),
    says={"not_found": "No lender has reported a loan of this customer."},
    looks_at=(*NAME_FIELDS, "date_of_birth"),
    judge=_judge,
    withheld=_withheld,
    hidden=_hidden,
)
