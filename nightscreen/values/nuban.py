"""The check digit of Nigerian account numbers (NUBAN): one formula, by scalar and by column.

The 2020 standard takes fifteen digits, six of the institution and nine of the serial number. A
bank's 3-digit code counts as `000` and the code, which gives the same digit as the older standard
of twelve digits; any other institution counts as `9` and its 5-digit code. `data/banks.csv` says
which banks have a check digit at all. A failing digit is a warning only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from nightscreen.values.columns import Mask


ACCOUNT_DIGITS = 10
NO_CHECK = -1
"""In a column of institution sums: this row's bank has no check digit, or no bank is known."""

_WEIGHTS = (3, 7, 3) * 5
_INSTITUTION_DIGITS = 6


def institution_of(code: str) -> str:
    """Return the six digits by which a 3-digit bank or 5-digit institution enters the formula."""
    return code.zfill(_INSTITUTION_DIGITS) if len(code) == len("044") else f"9{code}"


def institution_sum(institution: str) -> int:
    """Return what an institution's six digits add to the weighted sum."""
    return _weighted(institution, _WEIGHTS[:_INSTITUTION_DIGITS])


def check_digit(institution: str, serial: str) -> int:
    """Return the tenth digit of an account: six digits of institution, nine of serial number."""
    total = institution_sum(institution) + _weighted(serial, _WEIGHTS[_INSTITUTION_DIGITS:])
    return -total % 10


def agrees(institution: str, account: str) -> bool:
    """Return whether an account number of ten digits ends in the digit that the formula gives."""
    return check_digit(institution, account[:-1]) == int(account[-1])


def agreeing(institution_sums: npt.NDArray[np.int64], accounts: npt.NDArray[np.int64]) -> Mask:
    """Return which accounts agree, as `agrees` does; `NO_CHECK` never agrees.

    Args:
        institution_sums: `institution_sum` of each row's bank, or `NO_CHECK`.
        accounts: ten-digit account numbers as integers.
    """
    total = institution_sums.copy()
    rest = accounts // 10
    for weight in reversed(_WEIGHTS[_INSTITUTION_DIGITS:]):
        total += weight * (rest % 10)
        rest //= 10
    agree: Mask = (institution_sums != NO_CHECK) & (-total % 10 == accounts % 10)
    return agree


def _weighted(digits: str, weights: tuple[int, ...]) -> int:
    return sum(int(digit) * weight for digit, weight in zip(digits, weights, strict=True))
