"""BVN details at hand, as a screening run may see them: of rows whose consent counts, no others.

A BVN is confirmed by `bvn.confirmations`; here its answer is found again by the BVN's pseudonym.
There is no age limit: `bvn_checked_at` says how old it is, and a policy may ask.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from nightscreen.client.response_parser import parse_answer
from nightscreen.planning.consent import consent_column
from nightscreen.schemas.answers import BvnDetails
from nightscreen.schemas.checks import Operation, SubjectKind
from nightscreen.schemas.clock import to_instant
from nightscreen.schemas.columns import Flaw
from nightscreen.schemas.enriched import BVN_FIELDS
from nightscreen.values.whose import same_account

if TYPE_CHECKING:
    from collections.abc import Iterable

    from nightscreen.files.sealing import Pseudonyms
    from nightscreen.journal import Journal
    from nightscreen.journal.answers import Answers
    from nightscreen.schemas.answers import BvnAccount

WATCHLISTED, ACCOUNT_STATUS, STATUSES, CHECKED_AT = (name for name, _ in BVN_FIELDS)
_CHECK = Operation.BVN_FINISH.value


@dataclass(frozen=True, slots=True)
class BvnsAtHand:
    """Finds confirmed BVN details for rows."""

    any_held: bool  # the journal has confirmed any at all; else nothing is looked for
    at: int  # the instant consent is judged at, microseconds
    _answers: Answers = field(repr=False)
    _pseudonyms: Pseudonyms = field(repr=False)

    @classmethod
    def of(cls, journal: Journal, at: int) -> BvnsAtHand:
        """Return what a journal has at hand, for consent judged at an instant."""
        any_held = any(row.check == _CHECK for row in journal.runs.tallies())
        return cls(any_held, at, journal.answers, journal.pseudonyms)

    def columns(self, rows: pa.Table) -> dict[str, pa.Array]:
        """Return the columns of `BVN_FIELDS` for rows of an input.

        Null where nothing is held, where the answer does not say, and where consent does not count.
        """
        found: list[dict[str, Any]] = [{} for _ in range(rows.num_rows)]
        subjects = self._subjects(rows) if self.any_held else {}
        stored = self._answers.latest(_CHECK, list(set(subjects.values())))
        asked = _own_accounts(rows) if stored else []
        for row, subject in subjects.items():
            latest = stored.get(subject)
            if latest is None:
                continue
            found[row][CHECKED_AT] = to_instant(latest.answered_at)
            answer = parse_answer(Operation.BVN_FINISH, self._answers.body(_CHECK, latest))
            if isinstance(answer, BvnDetails):
                statuses = {each.account_status for each in answer.accounts if each.account_status}
                found[row] |= {
                    WATCHLISTED: None if answer.watchlisted is None else int(answer.watchlisted),
                    STATUSES: sorted(statuses) if answer.accounts else None,
                    ACCOUNT_STATUS: _own_status(asked[row], answer.accounts),
                }
        table = pa.Table.from_pylist(found, schema=pa.schema(BVN_FIELDS))
        return {name: table[name].combine_chunks() for name in table.column_names}

    def _subjects(self, rows: pa.Table) -> dict[int, bytes]:
        """Return the BVN's pseudonym of each row that has one and whose consent counts."""
        batches = rows.combine_chunks().to_batches()
        if not batches:
            return {}
        lawful = consent_column(batches[0], at=to_instant(self.at)).to_pylist()
        bvns, flaws = rows["bvn"].to_pylist(), rows["flaws"].to_pylist()
        return {
            place: self._pseudonyms.subject(SubjectKind.BVN.value, bvn)
            for place, bvn in enumerate(bvns)
            if bvn and lawful[place] and not flaws[place] & Flaw.BVN
        }


def _own_accounts(rows: pa.Table) -> list[str | None]:
    """Return the account of each row as it is asked by, such as `058-0123456789`."""
    codes, numbers = rows["bank_code"].to_pylist(), rows["account_number"].to_pylist()
    return [
        f"{code or ''}-{number}" if number else None
        for code, number in zip(codes, numbers, strict=True)
    ]


def _own_status(asked: str | None, accounts: Iterable[BvnAccount]) -> str | None:
    """Return how the row's own account stands, where it is among those of the BVN."""
    if asked is None:
        return None
    own = (
        each.account_status
        for each in accounts
        if each.account_number and same_account(asked, each.bank_code, each.account_number)
    )
    return next(own, None)


def nothing_held(rows: int) -> dict[str, pa.Array]:
    """Return the columns where nothing may be shown, as in test mode."""
    return {name: pa.nulls(rows, kind) for name, kind in BVN_FIELDS}
