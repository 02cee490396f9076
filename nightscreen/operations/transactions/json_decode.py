"""Records as they came: JSON read and written again with every number to the letter.

What the fields mean is `record_fields`; this knows nothing of transactions.
"""

from __future__ import annotations

import json

from nightscreen.schemas.consented import RawRecords, find_records


class NumberText(str):
    """A JSON number as it was written, such as `1.10` or `1E5`."""

    __slots__ = ()


def read_list(body: bytes, *, only_lists: bool = True) -> RawRecords | None:
    """Return the records of a list and where they lay; None where the body holds no list.

    Args:
        body: the answer as it came.
        only_lists: one record alone, as of a profile, is no answer.
    """
    try:
        document = json.loads(
            body, parse_float=NumberText, parse_int=NumberText, parse_constant=_refuse
        )
    except (ValueError, RecursionError):
        return None
    if isinstance(document, list):
        return RawRecords(tuple(document), "a bare list")
    return find_records(document, only_lists=only_lists) if isinstance(document, dict) else None


def _refuse(word: str) -> object:
    raise ValueError(f"{word} is no JSON")


def json_text(value: object, *, ordered: bool = False) -> str:
    """Return a value as JSON text in ASCII, numbers as they were written.

    Args:
        value: what `read_list` gave.
        ordered: bring the fields of objects into order, so that equal content is equal text.

    Raises:
        RecursionError: it is nested beyond reason.
    """
    match value:
        case NumberText():
            return str(value)
        case dict():
            fields = sorted(value.items()) if ordered else value.items()
            inside = (
                f"{json.dumps(key)}:{json_text(each, ordered=ordered)}" for key, each in fields
            )
            return "{" + ",".join(inside) + "}"
        case list():
            return "[" + ",".join(json_text(each, ordered=ordered) for each in value) + "]"
        case _:
            return json.dumps(value)


def parse_text(text: bytes) -> object:
    """Return what `json_text` wrote."""
    return json.loads(text, parse_float=NumberText, parse_int=NumberText)
