"""The Arrow types of declared columns; apart, because to name a check needs no Arrow."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from nightscreen.checks.declaration import Kind, Shape
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


def arrow_type(shape: Shape) -> pa.DataType:
    """Return the Arrow type of a declared column."""
    if isinstance(shape, Kind):
        return _TYPES[shape]
    if isinstance(shape, Mapping):
        return pa.struct([pa.field(name, arrow_type(each)) for name, each in shape.items()])
    (item,) = shape
    return pa.list_(arrow_type(item))
