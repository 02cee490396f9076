"""Is the photograph the BVN holder's? (specification, area B, image match)."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

import pyarrow as pa

from nightscreen.checks.declaration import (
    Column,
    Compare,
    Days,
    Declaration,
    Tone,
    nothing_withheld,
)
from nightscreen.schemas.answers import SelfieAnswer
from nightscreen.schemas.checks import IdentityKind, Outcome
from nightscreen.schemas.requests import VERIFICATION, Request, json_body, require, segment

if TYPE_CHECKING:
    from nightscreen.schemas.checks import Lookup


def selfie(bvn: str, image_url: str) -> Request:
    """Build an image match (specification, area B: `/bvn/:bvn/selfies`)."""
    require(image_url, "an image match needs the address of an image")
    path = f"{VERIFICATION}/bvn/{segment(bvn)}/selfies"
    return Request("selfie", "POST", path, json_body(image=image_url), asked=bvn)


def _request(lookup: Lookup) -> Request:
    return selfie(lookup.identity, lookup.image_url or "")


def _is_another(_asked: str, _record: SelfieAnswer) -> bool:
    """Return no: a score names nobody."""
    return False


SELFIE = Declaration(
    name="selfie",
    title="Selfie",
    task="check selfies",
    asked_by=(IdentityKind.BVN,),
    needs_consent=True,
    request=_request,
    read=SelfieAnswer.found_in,
    is_another=_is_another,
    names_somebody=False,
    ages={Outcome.SCORED: Days(365, 365)},  # another image is another question
    naira=Decimal(30),
    max_in_flight=3,
    timeout_s=75,
    is_default=False,
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
