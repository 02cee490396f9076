"""The requested length of a loan, as people write it, in whole days.

A bare number is days; a month counts thirty days and a year 365, as lenders count them.
"""

from __future__ import annotations

import re
from functools import partial

import numpy as np
import pyarrow as pa

from nightscreen.schemas.rows import Action
from nightscreen.values.columns import Column, matching, present, put, where
from nightscreen.values.validators import (
    Finding,
    Notes,
    Validated,
    judge_cells,
    without_unseen,
)

COLUMN = "requested_tenor_days"
LONGEST_DAYS = 40 * 365
"""Longer than any mortgage."""
_UNREADABLE = partial(Finding, action=Action.WARNED)(
    f"{COLUMN}_unreadable",
    "The time asked for cannot be read; write days as a number, or such as 6 months. It was taken "
    "as unknown.",
)
_WRITTEN = re.compile(
    r"(\d{1,5})(?:\.0+)?\s*(?:(d|days?)|(w|wks?|weeks?)|(m|mo|mths?|months?)|(y|yrs?|years?))?",
    re.IGNORECASE,
)
_DAYS = (1, 7, 30, 365)


def judge_tenor(text: str) -> Validated[int]:
    """Judge a time that is present."""
    found = _WRITTEN.fullmatch(without_unseen(text))
    if found is None:
        return Validated(None, (_UNREADABLE,))
    unit = next((days for days, word in zip(_DAYS, found.groups()[1:], strict=True) if word), 1)
    days = int(found[1]) * unit
    if not 0 < days <= LONGEST_DAYS:
        return Validated(None, (_UNREADABLE,))
    return Validated(days)


def judge_tenors(text: Column, notes: Notes) -> Column:
    """Return the column in whole days after judging."""
    plain = matching(text, r"^[1-9][0-9]{0,3}$")
    days = where(plain, text).cast(pa.int64())
    rows = np.flatnonzero(~plain & present(text))
    return put(days, rows, judge_cells(text, rows, judge_tenor, COLUMN, notes))
