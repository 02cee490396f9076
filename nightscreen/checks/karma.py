"""Is the person on the karma blacklist? (specification, area B, karma)."""

from __future__ import annotations

import pyarrow as pa

from nightscreen.checks.declaration import Column, Compare, Declaration, Tone, nothing_withheld
from nightscreen.schemas.checks import Check
from nightscreen.schemas.rows import NAIRA

LISTINGS = "karma_listings"
LISTING = pa.struct(
    [
        pa.field("identity_kind", pa.string()),
        pa.field("karma_type", pa.string()),
        pa.field("identity_type", pa.string()),
        pa.field("amount_in_contention", NAIRA),
        pa.field("default_date", pa.date32()),
        pa.field("reason", pa.string()),
        pa.field("reporting_entity_name", pa.string()),
        pa.field("reporting_entity_email", pa.string()),
    ]
)

KARMA = Declaration(
    check=Check.KARMA,
    title="Karma blacklist",
    task="check karma",
    asked_by=(),
    needs_consent=False,
    bears_balance=False,
    order=1,
    first_night_hits=0.05,
    first_night_seconds=1.0,
    statuses={"listed": Tone.BAD, "clear": Tone.GOOD},
    ranks=("clear", "listed"),
    columns=(
        Column(LISTINGS, pa.list_(LISTING), Compare.LISTING),
        Column("karma_listed_by", pa.list_(pa.string()), Compare.LISTING),
        Column("karma_amount_in_contention", NAIRA, Compare.MORE_IS_WORSE),
    ),
    says={"clear": "No lender has listed this customer."},
    withheld=nothing_withheld,
)
