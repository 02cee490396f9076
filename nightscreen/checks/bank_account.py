"""Does the account exist, and is it this customer's? (specification, area B)."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from nightscreen.checks.declaration import Column, Compare, Days, Declaration, Tone
from nightscreen.schemas.answers import BankAccountAnswer
from nightscreen.schemas.checks import IdentityKind, Outcome
from nightscreen.schemas.enriched import WORD
from nightscreen.schemas.requests import VERIFICATION, Request, json_body, require
from nightscreen.values.names import GRADES
from nightscreen.values.whose import same_account

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nightscreen.schemas.checks import Lookup


def bank_account(account_number: str, bank_code: str) -> Request:
    """Build a bank account verification (specification, area B: `/bankaccount/bvn`)."""
    require(account_number, "a bank account lookup needs an account number (058-0123456789)")
    require(bank_code, "a bank account lookup needs a bank code (058-0123456789)")
    return Request(
        "bank_account",
        "POST",
        f"{VERIFICATION}/bankaccount/bvn",
        json_body(account_number=account_number, bank_code=bank_code),
        asked=f"{bank_code}-{account_number}",
    )


def _request(lookup: Lookup) -> Request:
    bank_code, _, account_number = lookup.identity.partition("-")
    return bank_account(account_number, bank_code)


def _is_another(asked: str, record: BankAccountAnswer) -> bool:
    """Compare the account; its BVN, which the service masks with zeros, is compared by row."""
    return not same_account(asked, record.bank_code, record.account_number)


def _withheld(row: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the holder's name, unless the account is the customer's."""
    verified = row.get("bank_account_status") == "verified"
    return () if verified else ("bank_account_name", "name_explained")


BANK_ACCOUNT = Declaration(
    name="bank_account",
    title="Bank account",
    task="check bank accounts",
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
        Column("bank_account_name", pa.string(), Compare.IDENTIFYING),
        Column("bank_account_bvn_match", pa.bool_(), Compare.RANK, ("true", "false")),
        Column("name_match", WORD, Compare.RANK, GRADES),
        Column("name_explained", pa.string()),
    ),
    says={"not_found": "The bank knows no such account."},
    withheld=_withheld,
)
