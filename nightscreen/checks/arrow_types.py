"""The Arrow types of declared columns; separate, so that naming a check does not load Arrow."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import pyarrow as pa

from nightscreen.checks.declaration import Kind, Shape
from nightscreen.checks.registry import CHECKS
from nightscreen.schemas.enriched import WORD
from nightscreen.schemas.rows import INSTANT, NAIRA

_TYPES = {
    Kind.TEXT: pa.string(),
    Kind.WORD: WORD,
    Kind.FLAG: pa.bool_(),
    Kind.COUNT: pa.int64(),
    Kind.NUMBER: pa.float64(),
    Kind.NAIRA: NAIRA,
    Kind.AMOUNT: pa.decimal128(24, 6),
    Kind.DAY: pa.date32(),
    Kind.INSTANT: INSTANT,
}


@cache
def check_schema(check: str) -> pa.Schema:
    """Return the columns of a check in `enriched`: status, time, source, its own."""
    return pa.schema(
        [pa.field(each.name, _arrow_type(each.shape)) for each in CHECKS[check].every_column]
    )


def _arrow_type(shape: Shape) -> pa.DataType:
    if isinstance(shape, Kind):
        return _TYPES[shape]
    if isinstance(shape, Mapping):
        return pa.struct([pa.field(name, _arrow_type(each)) for name, each in shape.items()])
    (item,) = shape
    return pa.list_(_arrow_type(item))
