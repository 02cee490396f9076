"""Is the photograph the BVN holder's? (specification, area B, image match)."""

from __future__ import annotations

import pyarrow as pa

from nightscreen.checks.declaration import Column, Compare, Declaration, Tone, nothing_withheld
from nightscreen.schemas.checks import Check, IdentityKind

SELFIE = Declaration(
    check=Check.SELFIE,
    title="Selfie",
    task="check selfies",
    asked_by=(IdentityKind.BVN,),
    needs_consent=True,
    bears_balance=False,
    order=4,
    first_night_hits=0.95,
    first_night_seconds=10.0,
    statuses={"match": Tone.GOOD, "no_match": Tone.BAD, "unsure": Tone.DOUBTFUL},
    ranks=("match", "unsure", "no_match"),
    columns=(Column("selfie_similarity", pa.float64(), Compare.PLAIN),),
    says={},
    withheld=nothing_withheld,
)
