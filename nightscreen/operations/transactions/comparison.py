"""What a list of records says beside the last one: added, modified, removed. Pure.

The service has no cursor: every pull brings the whole list, or as much of it as the service cares
to send. A record is the same under its id, or under its content where it has none. A list that
lacks suspiciously much removes nothing until another pull confirms it.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from nightscreen.operations.transactions.json_decode import json_text, parse_text
from nightscreen.operations.transactions.record_fields import REPEATED_ID, TOO_DEEP, View
from nightscreen.schemas.pulls import Answered, Difference, PulledKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from nightscreen.files.sealing import Pseudonyms
    from nightscreen.operations.transactions.record_fields import Drift, RecordFields
    from nightscreen.schemas.pulls import Known

HELD_SHARE = 0.5
"""A list that lacks more than this share of what was known is suspicious; so is an empty one."""
HELD_TAIL = 5
"""So is one that lacks this many of the oldest in a row: it may have been cut short."""
LONG_LIST = 100
"""Records from which on a list may be as much as the service cares to send."""
_DEEP = '{"nested": "beyond reason"}'


def read_records(
    records: Sequence[object],
    fields: RecordFields,
    pseudonyms: Pseudonyms,
    customer: bytes,
    drift: Drift,
    kind: PulledKind = PulledKind.TRANSACTION,
) -> tuple[list[Answered], int]:
    """Return each record of a list once, ready to be kept, and how many stood there again.

    Args:
        records: as `json_decode.read_list` gave them.
        fields: what is known of their fields.
        pseudonyms: makes keys that tell nothing of a record.
        customer: the customer's pseudonym.
        drift: takes what differs from the known.
        kind: what they are; equal ids of two kinds are two records.
    """
    whose = customer.hex()
    contents: Counter[bytes] = Counter()
    by_id: Counter[str] = Counter()
    found: dict[bytes, Answered] = {}
    repeated = 0
    for place, record in enumerate(records):
        raw, ordered, too_deep = _texts(record)
        content = pseudonyms.subject(f"{kind} content", f"{whose}\x1f{ordered}")
        id_ = None if too_deep else fields.id_of(record)
        contents[content] += 1
        if id_ is not None and contents[content] > 1:
            repeated += 1
            continue
        view = View({}, problem=TOO_DEEP) if too_deep else fields.view(record, drift)
        problem, column = view.problem, view.column
        if id_ is None:
            same = f"{whose}\x1f{ordered}\x1f{contents[content]}"
            key = pseudonyms.subject(f"{kind} without id", same)
        else:
            by_id[id_] += 1
            again = by_id[id_] > 1
            same = f"{whose}\x1f{id_}\x1f{ordered}" if again else f"{whose}\x1f{id_}"
            key = pseudonyms.subject(f"{kind} again" if again else kind.value, same)
            if again:
                problem, column = REPEATED_ID, fields.id_column
        whole = raw.encode()
        found[key] = Answered(key, content, whole, view.occurred_at, place, problem, column)
    return list(found.values()), repeated


def _texts(record: object) -> tuple[str, str, bool]:
    """Return a record's text as it came and in order, and whether it is nested beyond reason."""
    try:
        return json_text(record), json_text(record, ordered=True), False
    except RecursionError:
        return _DEEP, _DEEP, True


def compare(
    known: Iterable[Known],
    answered: Sequence[Answered],
    *,
    confirms: bool,
    old_before: int,
) -> Difference:
    """Return what a list says beside what is known.

    Args:
        known: the customer's records as they are kept.
        answered: the records of the list.
        confirms: the pull before held removals back: what still lacks is gone.
        old_before: what occurred before this instant, microseconds, may be older than what the
            service lists.
    """
    here = {each.key: each for each in answered}
    before = {each.key: each for each in known}
    lacking = [each for key, each in before.items() if key not in here]
    beyond, within = _by_reach(lacking, answered, old_before)
    held = 0 if confirms else _held(len(before) - len(beyond), within, answered)
    return Difference(
        added=tuple(each for key, each in here.items() if key not in before),
        modified=tuple(
            (before[key], each)
            for key, each in here.items()
            if key in before and before[key].content != each.content
        ),
        removed=() if held else tuple(within),
        held=held,
        out_of_reach=len(beyond),
    )


def _oldest(answered: Iterable[Answered]) -> int | None:
    return min(
        (each.occurred_at for each in answered if each.occurred_at is not None), default=None
    )


def _by_reach(
    lacking: Sequence[Known], answered: Sequence[Answered], old_before: int
) -> tuple[list[Known], list[Known]]:
    """Part what lacks into what is older than the list reaches, and what it should have told."""
    oldest = _oldest(answered)
    if oldest is None or len(answered) < LONG_LIST:
        return [], list(lacking)
    limit = min(oldest, old_before)
    beyond = [each for each in lacking if each.occurred_at is not None and each.occurred_at < limit]
    gone = {each.key for each in beyond}
    return beyond, [each for each in lacking if each.key not in gone]


def _held(known: int, lacking: Sequence[Known], answered: Sequence[Answered]) -> int:
    """Return how many removals wait, since the list lacks suspiciously much."""
    if not lacking:
        return 0
    if not answered or len(lacking) > HELD_SHARE * known:
        return len(lacking)
    oldest = _oldest(answered)
    if oldest is None:
        return 0
    tail = [each for each in lacking if each.occurred_at is not None and each.occurred_at < oldest]
    return len(lacking) if len(tail) >= HELD_TAIL else 0


def changed_fields(before: bytes, after: bytes) -> list[str]:
    """Return the names of the fields in which two versions of a record differ."""
    old, new = parse_text(before), parse_text(after)
    if not isinstance(old, dict) or not isinstance(new, dict):
        return []
    names = [*new, *(name for name in old if name not in new)]
    return [name for name in names if _part(old, name) != _part(new, name)]


def _part(record: dict[str, object], name: str) -> str:
    return json_text(record[name], ordered=True) if name in record else ""
