"""Columns of the decision list, made of columns of enriched rows without looking at single rows.

Which rows are on the list, and what is said of them, is decided in `decision_list`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nightscreen.checks.registry import CHECKS
from nightscreen.schemas.checks import IdentityKind
from nightscreen.schemas.rows import INSTANT, NAIRA

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from enum import StrEnum

    from numpy.typing import NDArray

NAMES = ("first_name", "middle_name", "last_name")
_BVN_DIGITS = 11
_SHOWN_DIGITS = 4
_SKIP = pc.JoinOptions(null_handling="skip")


class Columns:
    """Gives columns of the list.

    Args:
        rows: enriched rows; of the input's columns any may be missing.
    """

    def __init__(self, rows: pa.Table) -> None:
        self._rows = rows

    def of(self, name: str, kind: pa.DataType | None = None) -> pa.Array:
        """Return a column as it stands, words as text; of nulls where the input has none such."""
        if name not in self._rows.column_names:
            return pa.nulls(self._rows.num_rows, kind or pa.string())
        column = self._rows[name]
        if pa.types.is_dictionary(column.type):
            column = column.cast(pa.string())
        return column.combine_chunks()

    def _filled(self, name: str) -> pa.Array:
        """Return text, null where it is empty."""
        text = self.of(name)
        return pc.if_else(pc.equal(text, ""), pa.scalar(None, pa.string()), text)

    def names(self) -> pa.Array:
        """Return names as the lender's file has them, null where it has none."""
        given = [self._filled(name) for name in NAMES]
        # the join drops a row that is null in every column: the last column never is
        columns = [*given, pa.scalar(""), pa.scalar(" ")]
        joined = pc.utf8_rtrim(pc.call_function("binary_join_element_wise", columns, _SKIP), " ")
        joined = pc.if_else(pc.equal(joined, ""), pa.scalar(None, pa.string()), joined)
        return pc.coalesce(self._filled("full_name"), joined)

    def last_digits(self) -> pa.Array:
        """Return the last four digits of each BVN, null of anything that is none."""
        bvn = self.of("bvn")
        sound = pc.and_(pc.equal(pc.utf8_length(bvn), _BVN_DIGITS), pc.utf8_is_decimal(bvn))
        digits = pc.utf8_slice_codeunits(bvn, _BVN_DIGITS - _SHOWN_DIGITS, _BVN_DIGITS)
        return pc.if_else(sound, digits, pa.scalar(None, pa.string()))

    def in_kobo(self, name: str) -> pa.Array:
        """Return an amount rounded to kobo, halves to even."""
        rounded = pc.round(self.of(name), ndigits=NAIRA.scale, round_mode="half_to_even")
        return rounded.cast(NAIRA)

    def evidence_as_of(self) -> pa.Array:
        """Return when each row's oldest answer was given: the evidence is as old as that."""
        instants = [self.of(f"{check}_checked_at", INSTANT) for check in CHECKS]
        micros = [each.cast(pa.int64()) for each in instants]
        return pc.min_element_wise(*micros, skip_nulls=True).cast(INSTANT)

    def worst_listings(self) -> dict[str, pa.Array]:
        """Return kind, reason, amount, reporter and day of the listing that counts most."""
        listings = self.of("karma_listings")
        some = pc.fill_null(pc.greater(pc.list_value_length(listings), 0), fill_value=False)
        places = np.flatnonzero(some.to_numpy(zero_copy_only=False))
        worst = [worst_listing(each) for each in listings.take(pa.array(places)).to_pylist()]
        at = np.full(self._rows.num_rows, -1, np.int64)
        at[places] = np.arange(len(places))
        order = pa.array(at, mask=at < 0)
        return {
            "karma_amount": _text(worst, "amount_in_contention", NAIRA).take(order),
            "karma_type": _text(worst, "karma_type", pa.string()).take(order),
            "karma_reason": _text(worst, "reason", pa.string()).take(order),
            "karma_reporter": _text(worst, "reporting_entity_name", pa.string()).take(order),
            "karma_default_date": _text(worst, "default_date", pa.date32()).take(order),
        }


def _text(worst: Sequence[Mapping[str, Any]], name: str, kind: pa.DataType) -> pa.Array:
    return pa.array([each.get(name) for each in worst], kind)


def worst_listing(listings: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Return the listing that counts most: by BVN before others, then the highest amount.

    By its BVN a customer is known best, and by it alone the default policy declines. Empty where
    there is none.
    """
    return max(
        listings,
        key=lambda each: (
            each["identity_kind"] == IdentityKind.BVN.value,
            each["amount_in_contention"] or 0,
        ),
        default={},
    )


def words_of(numbers: NDArray[np.int8], words: Sequence[StrEnum]) -> pa.Array:
    """Return words by their numbers, null where a number is negative."""
    places = pa.array(numbers.astype(np.int64), mask=numbers < 0)
    return pa.array([each.value for each in words], pa.string()).take(places)
