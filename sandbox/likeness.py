"""Image match: how alike a photograph and a BVN record are."""

from __future__ import annotations

from decimal import Decimal
from typing import Final

from nightscreen.sandbox import magic
from nightscreen.sandbox.draw import Draw
from nightscreen.sandbox.lives import person_of_bvn

MATCH_FROM: Final = 80
"""The service's own line between match and no match; the caller sets another (rule 2)."""

_RANGES: Final = {"match": (86, 100), "unsure": (60, 80), "no_match": (2, 45)}


def selfie_of(bvn: str, image_url: str, *, day: int = 0) -> dict[str, object] | None:
    """Tell what an image match answers (service.md, "BVN image match result").

    Args:
        bvn: 11 digits.
        image_url: address of the photograph; another address is another photograph.
        day: day of the simulated world; faces do not change.

    Returns:
        The `data` of the answer, or None where there is no such BVN record.

    Raises:
        ValueError: the BVN is not 11 digits.
    """
    del day
    person_of_bvn(bvn)
    draw = Draw("likeness", bvn, image_url)
    special = magic.by_bvn(bvn)
    chance = draw.below(100)
    kind = "match" if chance < 92 else "unsure" if chance < 96 else "no_match"  # noqa: PLR2004
    kind = special.likeness if special else kind
    if kind == "unknown":
        return None
    low, high = _RANGES[kind]
    similarity = Decimal(low * 10_000 + draw.below((high - low) * 10_000)) / 10_000
    return {"match": similarity >= MATCH_FROM, "similarity": similarity}
