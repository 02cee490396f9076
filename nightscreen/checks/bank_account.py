"""Does the account exist, and is it this customer's? (specification, area B)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from nightscreen.checks.declaration import Column, Compare, Declaration, Tone
from nightscreen.schemas.checks import Check, IdentityKind
from nightscreen.schemas.enriched import WORD
from nightscreen.values.names import GRADES

if TYPE_CHECKING:
    from collections.abc import Mapping


def _withheld(row: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the holder's name, unless the account is the customer's."""
    verified = row.get("bank_account_status") == "verified"
    return () if verified else ("bank_account_name", "name_explained")


BANK_ACCOUNT = Declaration(
    check=Check.BANK_ACCOUNT,
    title="Bank account",
    task="check bank accounts",
    asked_by=(IdentityKind.NUBAN,),
    needs_consent=False,
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
