"""Is the photograph the BVN holder's? (specification, area B, image match)."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

from nightscreen.checks.declaration import Column, Compare, Days, Declaration, Kind, Tone
from nightscreen.schemas.answers import Flag, Number, Record
from nightscreen.schemas.checks import IdentityKind, Outcome
from nightscreen.schemas.requests import VERIFICATION, Request, json_body, require, segment

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nightscreen.checks.declaration import Found, Limits, Row
    from nightscreen.schemas.checks import Lookup


class SelfieAnswer(Record):
    """A photograph compared with the BVN record (specification, BVN image match result).

    `similarity` is up to about 100; the threshold is the lender's (area B, rule 2).
    """

    match: Flag = None
    similarity: Number = None


def _request(lookup: Lookup) -> Request:
    """Build an image match (specification, area B: `/bvn/:bvn/selfies`)."""
    image_url = lookup.together_with or ""
    require(image_url, "an image match needs the address of an image")
    path = f"{VERIFICATION}/bvn/{segment(lookup.identity)}/selfies"
    return Request("selfie", "POST", path, json_body(image=image_url), asked=lookup.identity)


def _judge(_row: Row, found: Sequence[Found], limits: Limits) -> tuple[Any, ...]:
    """Return `match`, `no_match` or, between the lender's two thresholds, `unsure`.

    The service only scores; the threshold is the caller's (specification, area B, rule 2).
    """
    answer: SelfieAnswer | None = found[0][1] if found else None
    if answer is None:
        return "no_match", None
    if answer.similarity is None:
        status = "unsure" if answer.match is None else "match" if answer.match else "no_match"
        return status, None
    if answer.similarity >= _as_written(limits.match_at):
        status = "match"
    else:
        below = answer.similarity < _as_written(limits.no_match_below)
        status = "no_match" if below else "unsure"
    return status, float(answer.similarity)


def _as_written(threshold: float) -> Decimal:
    """Return a threshold as the lender wrote it: 91.86, not the nearest binary fraction."""
    return Decimal(str(threshold))


SELFIE = Declaration(
    name="selfie",
    title="Selfie",
    asked_by=(IdentityKind.BVN,),
    together_with=IdentityKind.IMAGE,
    needs_consent=True,
    request=_request,
    read=SelfieAnswer.found_in,
    ages={Outcome.SCORED: Days(365, 365)},  # another image is another question
    naira=Decimal(30),
    max_in_flight=3,
    timeout_s=75,
    order=4,
    first_night_hits=0.95,
    first_night_seconds=10.0,
    statuses={"match": Tone.GOOD, "no_match": Tone.BAD, "unsure": Tone.DOUBTFUL},
    ranks=("match", "unsure", "no_match"),
    columns=(
        Column(
            "selfie_similarity",
            Kind.NUMBER,
            "How alike the photographs are, up to about 100.",
            Compare.PLAIN,
        ),
    ),
    judge=_judge,
)
