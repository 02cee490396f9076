"""Check whether the phone is registered to this customer."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import quote

from nightscreen.checks.declaration import Column, Compare, Days, Declaration, Kind, Limits, Tone
from nightscreen.schemas.answers import Record, Text
from nightscreen.schemas.checks import IdentityKind, Lookup, Outcome
from nightscreen.schemas.requests import VERIFICATION, Request
from nightscreen.schemas.columns import NAME_FIELDS, names_of
from nightscreen.values.names import AGREES, match_names
from nightscreen.values.whose import names_the_same

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nightscreen.checks.declaration import Found, Row


class PhoneOwner(Record):
    """The holder of a phone line, as the service reports it."""

    named_by: ClassVar[str] = "phone"

    phone: Text = None
    name: Text = None
    line_type: Text = None


def _request(lookup: Lookup) -> Request:
    path = f"{VERIFICATION}/phone?phone={quote(lookup.identity, safe='')}"
    return Request("phone_owner", "GET", path, None, asked=lookup.identity)


def _is_another(asked: str, record: PhoneOwner) -> bool:
    return not names_the_same(IdentityKind.PHONE, asked, record.phone)


def _judge(row: Row, found: Sequence[Found], _limits: Limits) -> tuple[Any, ...]:
    """Return the status, the name and the type of the line."""
    record: PhoneOwner | None = found[0][1] if found else None
    if record is None:
        return "mismatch" if found else "not_found", None, None
    match = match_names(names_of(row), record.name)
    agrees = match is not None and match.grade in AGREES
    return "verified" if agrees else "mismatch", record.name, record.line_type


def _withheld(row: Row) -> tuple[str, ...]:
    """Return the holder's name, unless the line is the customer's."""
    verified = row.get("phone_owner_status") == "verified"
    return () if verified else ("phone_owner_name",)


def _hidden(record: PhoneOwner, rows: Sequence[Row]) -> tuple[str, ...]:
    found = [(IdentityKind.PHONE, record)]
    verified = any(_judge(row, found, Limits())[0] == "verified" for row in rows)
    return () if verified else ("name", "extra")


PHONE_OWNER = Declaration(
    name="phone_owner",
    title="Phone owner",
    asked_by=(IdentityKind.PHONE,),
    needs_consent=False,
    request=_request,
    read=PhoneOwner.found_in,
    is_another=_is_another,
    names_somebody=True,
    ages={Outcome.FOUND: Days(portfolio=90, origination=7), Outcome.NOT_FOUND: Days(14, 1)},
    naira=Decimal(10),
    max_in_flight=4,
    timeout_s=30,
    order=5,
    first_night_hits=0.8,
    first_night_seconds=1.0,
    statuses={"verified": Tone.GOOD, "mismatch": Tone.BAD, "not_found": Tone.DOUBTFUL},
    ranks=("verified", "not_found", "mismatch"),
    columns=(
        Column("phone_owner_name", Kind.TEXT, "Name of the line's holder.", Compare.IDENTIFYING),
        Column("phone_owner_line_type", Kind.TEXT, "Mobile or landline.", Compare.PLAIN),
    ),
    looks_at=NAME_FIELDS,
    judge=_judge,
    says={"not_found": "No network knows this number."},
    withheld=_withheld,
    hidden=_hidden,
)
