"""Data of area A about a customer who consented: tokens, and records without any guaranteed field.

The fields of transactions, bank accounts and profiles are not in the specification: a record is
kept as it came, and typed views are made of it where fields are known (`operations/`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from nightscreen.schemas.answers import Record, Text

if TYPE_CHECKING:
    from collections.abc import Mapping

_ELSEWHERE = ("transactions", "records", "items", "accounts")
"""Where a list may be if the envelope changes: area A is in beta."""


class TokenAnswer(Record):
    """An access token (specification, access-token response).

    Attributes:
        refresh_token: only after the exchange of a code; a refresh returns none.
        scope: what was granted, separated by blanks.
    """

    access_token: Text = None
    token_type: Text = None
    username: Text = None
    refresh_token: Text = None
    scope: Text = None


@dataclass(frozen=True, slots=True)
class RawRecords:
    """Records as they came, numbers exact; what is no JSON object is kept among them.

    Attributes:
        shape: where in the document they were, such as `data` or `data.transactions`; a change is
            reported.
    """

    records: tuple[object, ...] = field(repr=False)
    shape: str = "data"

    def is_blank(self) -> bool:
        """Return whether nothing was read; an empty list says something."""
        return False


def find_records(document: Mapping[str, object], *, only_lists: bool) -> RawRecords | None:
    """Return the records of a document, or None where it holds none in any shape known.

    Args:
        document: the whole body.
        only_lists: a single object under `data` is no answer, as for a list.
    """
    data = document.get("data")
    if isinstance(data, list):
        return RawRecords(tuple(data))
    if isinstance(data, dict):
        lists = {name: value for name, value in data.items() if isinstance(value, list)}
        if len(lists) == 1 and only_lists:
            name, found = next(iter(lists.items()))
            return RawRecords(tuple(found), f"data.{name}")
        return None if only_lists else RawRecords((data,))
    if "data" not in document:
        for name in _ELSEWHERE:
            records = document.get(name)
            if isinstance(records, list):
                return RawRecords(tuple(records), name)
    return None if only_lists else RawRecords(())
