"""Does the account exist, and is it this customer's? (specification, area B)."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from nightscreen.checks.declaration import Column, Compare, Days, Declaration, Kind, Tone
from nightscreen.schemas.answers import Record, Text
from nightscreen.schemas.checks import IdentityKind, Outcome
from nightscreen.schemas.columns import NAME_FIELDS, Flaw, names_of
from nightscreen.schemas.requests import VERIFICATION, Request, json_body, require
from nightscreen.values.identifiers import BVN_DIGITS
from nightscreen.values.names import AGREES, CONTRADICTS, GRADES, match_names
from nightscreen.values.whose import same_account

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nightscreen.checks.declaration import Found, Limits, Row
    from nightscreen.schemas.checks import Lookup

# recorded answers show these digits of a BVN, and zeros for those between
_SHOWN_FIRST = 2
_SHOWN_LAST = 2
_MASKED = "0" * (BVN_DIGITS - _SHOWN_FIRST - _SHOWN_LAST)


class BankAccountAnswer(Record):
    """A verified account (specification, bank account verification result).

    The service sends the BVN masked, its middle digits zero: compare only the digits shown and
    never ask with it.
    """

    named_by: ClassVar[str] = "account_number"

    bank_code: Text = None
    account_name: Text = None
    account_number: Text = None
    bvn: Text = None


def _request(lookup: Lookup) -> Request:
    """Build a bank account verification (specification, area B: `/bankaccount/bvn`)."""
    bank_code, _, account_number = lookup.identity.partition("-")
    require(account_number, "a bank account lookup needs an account number (058-0123456789)")
    require(bank_code, "a bank account lookup needs a bank code (058-0123456789)")
    body = json_body(account_number=account_number, bank_code=bank_code)
    return Request(
        "bank_account", "POST", f"{VERIFICATION}/bankaccount/bvn", body, asked=lookup.identity
    )


def _is_another(asked: str, record: BankAccountAnswer) -> bool:
    """Compare the account; its masked BVN is compared with the row later."""
    return not same_account(asked, record.bank_code, record.account_number)


class AccountVerdict(NamedTuple):
    """The result of comparing a bank account with a row: status and evidence."""

    status: str
    account_name: str | None = None
    bvn_match: bool | None = None
    grade: str | None = None
    explained: str | None = None


def bvn_agrees(ours: str | None, theirs: str | None) -> bool | None:
    """Compare two BVNs on the digits the service shows; None if there is nothing to compare.

    The service masks the middle seven digits with zeros; other masks use characters that are not
    digits.
    """
    if not ours or not theirs or len(ours) != BVN_DIGITS or len(theirs) != BVN_DIGITS:
        return None
    if theirs[_SHOWN_FIRST:-_SHOWN_LAST] == _MASKED:
        return ours[:_SHOWN_FIRST] == theirs[:_SHOWN_FIRST] and ours.endswith(theirs[-_SHOWN_LAST:])
    shown = [place for place, digit in enumerate(theirs) if digit.isdigit()]
    if not shown:
        return None
    return all(ours[place] == theirs[place] for place in shown)


def judge_account(row: Row, answer: BankAccountAnswer | None) -> AccountVerdict:
    """Return whether an account is this customer's.

    `verified`: BVN or name agrees and neither contradicts. `mismatch`: one contradicts.
    `unconfirmed`: it exists, but there is nothing to compare, or only a `likely` name, which may be
    a relative's. `not_found`: it does not exist.
    """
    if answer is None:
        return AccountVerdict("not_found")
    ours = None if row["flaws"] & Flaw.BVN.value else row["bvn"]
    bvn = bvn_agrees(ours, answer.bvn)
    name = match_names(names_of(row), answer.account_name)
    grade, explained = (None, None) if name is None else (name.grade, name.explained)
    if bvn is False or grade in CONTRADICTS:
        status = "mismatch"
    elif bvn or grade in AGREES:
        status = "verified"
    else:
        status = "unconfirmed"
    return AccountVerdict(status, answer.account_name, bvn, grade, explained)


def _judge(row: Row, found: Sequence[Found], _limits: Limits) -> tuple[Any, ...]:
    return judge_account(row, found[0][1] if found else None)


def _withheld(row: Row) -> tuple[str, ...]:
    """Return the holder's name, unless the account is the customer's."""
    verified = row.get("bank_account_status") == "verified"
    return () if verified else ("bank_account_name", "name_explained")


def _hidden(record: BankAccountAnswer, rows: Sequence[Row]) -> tuple[str, ...]:
    """Return the holder's fields, unless a row shows that the account is the customer's."""
    verified = any(judge_account(row, record).status == "verified" for row in rows)
    return () if verified else ("account_name", "bvn", "extra")


BANK_ACCOUNT = Declaration(
    name="bank_account",
    title="Bank account",
    asked_by=(IdentityKind.NUBAN,),
    needs_consent=False,
    request=_request,
    read=BankAccountAnswer.found_in,
    is_another=_is_another,
    names_somebody=True,
    ages={Outcome.FOUND: Days(180, 30), Outcome.NOT_FOUND: Days(30, 1)},
    naira=Decimal(10),
    max_in_flight=6,
    timeout_s=45,
    is_default=True,
    bears_balance=True,
    order=2,
    first_night_hits=0.95,
    first_night_seconds=5.0,
    statuses={
        "verified": Tone.GOOD,
        "mismatch": Tone.BAD,
        "unconfirmed": Tone.DOUBTFUL,
        "not_found": Tone.DOUBTFUL,
    },
    ranks=("verified", "unconfirmed", "not_found", "mismatch"),
    columns=(
        Column(
            "bank_account_name", Kind.TEXT, "In whose name the account is.", Compare.IDENTIFYING
        ),
        Column(
            "bank_account_bvn_match",
            Kind.FLAG,
            "Whether the account's BVN is the row's; empty if there is nothing to compare.",
            Compare.RANK,
            ("true", "false"),
        ),
        Column(
            "name_match",
            Kind.WORD,
            "How well the account's name fits: strong, likely, weak, none, business.",
            Compare.RANK,
            GRADES,
        ),
        Column("name_explained", Kind.TEXT, "Why, in words."),
    ),
    says={"not_found": "The bank knows no such account."},
    looks_at=("flaws", "bvn", *NAME_FIELDS),
    judge=_judge,
    withheld=_withheld,
    hidden=_hidden,
)
