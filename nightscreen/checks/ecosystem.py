"""What is the customer's history with other lenders? (specification, area B, ecosystem)."""

from __future__ import annotations

from decimal import Decimal
from operator import itemgetter
from typing import TYPE_CHECKING, Any, ClassVar, cast, get_type_hints

from pydantic import Field

from nightscreen.checks.declaration import Column, Compare, Days, Declaration, Kind, Tone
from nightscreen.schemas.answers import Count, Day, Instant, Number, Record, Text
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


def _column(meaning: str, compare: Compare | None = None) -> Any:  # noqa: ANN401 - a field
    """Declare a field of the record that is also a column, with its meaning and comparison.

    Logins, age and the time of processing change with every lookup, so they are not compared.
    """
    judged: dict[str, Any] = {"compare": compare}
    return Field(None, description=meaning, json_schema_extra=judged)


class EcosystemRecord(Record):
    """A borrower's history with lenders (specification, ecosystem record).

    The fields of the specification come first, then others that were seen in recorded answers.
    """

    named_by: ClassVar[str] = "bvn"

    bvn: Text = _column("The BVN of the history.")
    first_name: Text = _column("First name of the history.", Compare.IDENTIFYING)
    last_name: Text = _column("Last name of the history.", Compare.IDENTIFYING)
    date_of_birth: Day = _column("Date of birth of the history.", Compare.IDENTIFYING)
    age: Count = _column("Age in years, as the service says.")
    lenders: Count = _column("How many lenders know the customer.", Compare.PLAIN)
    first_account: Instant = _column("When the first account with a lender was opened.")
    last_account: Instant = _column("When the latest was.")
    loans: Count = _column("How many loans the customer has had.", Compare.PLAIN)
    loan_amount_minimum: Number = _column("The smallest loan, naira.", Compare.PLAIN)
    loan_amount_maximum: Number = _column("The largest, naira.", Compare.PLAIN)
    loan_amount_average: Number = _column("The mean, naira.", Compare.PLAIN)
    settled_loans: Count = _column("Loans paid off.", Compare.PLAIN)
    running_loans: Count = _column("Loans running now.", Compare.PLAIN)
    past_due_loans: Count = _column("Loans past their due date.", Compare.MORE_IS_WORSE)
    delayed_paid_loans: Count = _column("Loans that were paid late.", Compare.MORE_IS_WORSE)
    past_due_loan_amount_due: Number = _column(
        "What is due on loans past their date, naira.", Compare.MORE_IS_WORSE
    )
    logins: Count = _column("How often the customer used lenders' applications.")
    first_login: Instant = _column("The first time.")
    last_login: Instant = _column("The last time.")
    credit_delinquency: Count = _column(
        "As given by the service; what it counts is not specified.", Compare.PLAIN
    )
    processed_on: Instant = _column("When the service made the record.")

    bvn_phone_number: Text = _column("Phone registered with the BVN, in the history.")
    phone_number: Text = _column("The customer's phone in the history.")
    unique_phone_numbers: Count = _column("How many phone numbers lenders know of the customer.")
    email: Text = _column("The customer's email in the history.")
    unique_emails: Count = _column("How many emails lenders know of the customer.")
    gender: Text = _column("Gender in the history; a policy may use it only with allow_sensitive.")
    failed_selfie_bvn_check: Count = _column("How often a photograph did not match the BVN.")
    lending_lenders: Count = _column("How many of the lenders lent.")
    loan_amount: Number = _column("All loans together, naira.")
    settled_loan_amount: Number = _column("Loans paid off, naira.")
    settled_loan_amount_paid: Number = _column("What was paid for them, naira.")
    running_loan_amount: Number = _column("Loans running now, naira.")
    past_due_loan_amount: Number = _column("Loans past their due date, naira.")
    penalty: Number = _column("Penalties, naira.")
    penalty_paid: Number = _column("Penalties paid, naira.")
    delayed_paid_loan_amount: Number = _column("Loans that were paid late, naira.")
    delayed_paid_loans_trials: Count = _column("Attempts at collecting loans that were paid late.")
    delayed_paid_loans_avg: Number = _column("Their mean, as given by the service.")
    delayed_paid_loans_trials_max: Count = _column("The most attempts at one loan.")
    delayed_paid_loans_trials_min: Count = _column("The fewest.")
    first_loan_date: Day = _column("Day of the first loan.")
    last_loan_date: Day = _column("Day of the latest.")
    loan_requests: Count = _column("How many loans the customer asked for.")
    failed_loan_requests: Count = _column("How many of these failed.")
    unique_login_ips: Count = _column("From how many network addresses the customer logged in.")
    unique_device_ids: Count = _column("With how many devices.")
    distinct_mobile_os: Count = _column("How many mobile systems these have.")
    duplicated_devices: Count = _column("How many of the devices others use too.")
    shared_device_users: Count = _column("How many others use them.")


FIELDS = tuple(EcosystemRecord.model_fields)[1:]
"""The fields of a record except `extra`, which has those that are not known here."""
_values = itemgetter(*FIELDS)
_NOTHING = (None,) * (len(FIELDS) + 3)
_READ_AS = get_type_hints(EcosystemRecord, include_extras=True)
OF_THE_BORROWER = (
    *("first_name", "last_name", "date_of_birth", "age", "gender"),
    *("phone_number", "bvn_phone_number", "email", "extra"),
)
"""Fields that identify the borrower."""


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
        _dob_matches(row, record),
    )


def _name(row: Row, record: EcosystemRecord) -> NameMatch | None:
    theirs = " ".join(part for part in (record.first_name, record.last_name) if part)
    return match_names(names_of(row), theirs or None)


def _dob_matches(row: Row, record: EcosystemRecord) -> bool | None:
    """Compare two dates of birth; None if one is missing."""
    ours, theirs = row["date_of_birth"], record.date_of_birth
    return None if ours is None or theirs is None else bool(ours == theirs)


def _hidden(record: EcosystemRecord, rows: Sequence[Row]) -> tuple[str, ...]:
    """Return the identifying fields, unless a row agrees with the record."""
    for row in rows:
        name = _name(row, record)
        is_other = name is not None and name.grade in CONTRADICTS
        if not is_other and _dob_matches(row, record) is not False:
            return ()
    return OF_THE_BORROWER


def _withheld(row: Row) -> tuple[str, ...]:
    """Return the identifying columns if the record contradicts the customer."""
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
            Column(
                *(f"ecosystem_{name}", _KINDS[_READ_AS[name]], said.description or ""),
                **cast("dict[str, Any]", said.json_schema_extra),
            )
            for name, said in EcosystemRecord.model_fields.items()
            if name in FIELDS
        ),
        Column(
            "ecosystem_extra",
            Kind.TEXT,
            "Fields of the answer that are not known here, as JSON text.",
        ),
        Column(
            "ecosystem_name_match",
            Kind.WORD,
            "How well the history's name fits: strong, likely, weak, none, business.",
            Compare.RANK,
            GRADES,
        ),
        Column(
            "ecosystem_dob_match",
            Kind.FLAG,
            "Whether its date of birth is the row's; empty if there is nothing to compare.",
            Compare.RANK,
            ("true", "false"),
        ),
    ),
    says={"not_found": "No lender has reported a loan of this customer."},
    looks_at=(*NAME_FIELDS, "date_of_birth"),
    judge=_judge,
    withheld=_withheld,
    hidden=_hidden,
)
