"""BVN details at hand, as a screening run may see them: of rows whose consent counts, no others.

Confirming a BVN is `bvn_confirming`'s; here its answer is found again by the BVN's pseudonym. There
is no age limit: `bvn_checked_at` says how old it is, and a policy may ask.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa

from nightscreen.client.reading import parse_answer
from nightscreen.schemas.answers import BvnDetails
from nightscreen.schemas.checks import Operation, SubjectKind
from nightscreen.schemas.rows import INSTANT, Flaw
from nightscreen.steps.planning.consent import consent_column
from nightscreen.steps.results.enriched import BVN_FIELDS
from nightscreen.storage.clock import to_instant

if TYPE_CHECKING:
    from nightscreen.storage.journal import Journal
    from nightscreen.storage.journal.answers import Answers
    from nightscreen.storage.sealing import Pseudonyms

WATCHLISTED, CHECKED_AT = (name for name, _ in BVN_FIELDS)
_CHECK = Operation.BVN_FINISH.value


@dataclass(frozen=True, slots=True)
class BvnsAtHand:
    """Finds confirmed BVN details for rows.

    Attributes:
        any_held: the journal has confirmed any at all; else nothing is looked for.
        at: the instant consent is judged at, microseconds.
    """

    any_held: bool
    at: int
    _answers: Answers = field(repr=False)
    _pseudonyms: Pseudonyms = field(repr=False)

    @classmethod
    def of(cls, journal: Journal, at: int) -> BvnsAtHand:
        """Return what a journal has at hand, for consent judged at an instant."""
        any_held = any(row.check == _CHECK for row in journal.runs.tallies())
        return cls(any_held, at, journal.answers, journal.pseudonyms)

    def columns(self, rows: pa.Table) -> dict[str, pa.Array]:
        """Return `bvn_watchlisted` (0, 1 or null) and `bvn_checked_at` for rows of an input.

        Null where nothing is held, where the answer does not say, and where consent does not count.
        """
        watchlisted: list[int | None] = [None] * rows.num_rows
        checked_at: list[int | None] = [None] * rows.num_rows
        subjects = self._subjects(rows) if self.any_held else {}
        stored = self._answers.latest(_CHECK, list(set(subjects.values())))
        for row, subject in subjects.items():
            found = stored.get(subject)
            if found is None:
                continue
            checked_at[row] = found.answered_at
            answer = parse_answer(Operation.BVN_FINISH, self._answers.body(_CHECK, found))
            if isinstance(answer, BvnDetails) and answer.watchlisted is not None:
                watchlisted[row] = int(answer.watchlisted)
        return {
            WATCHLISTED: pa.array(watchlisted, pa.int64()),
            CHECKED_AT: pa.array(checked_at, pa.int64()).cast(INSTANT),
        }

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


def nothing_held(rows: int) -> dict[str, pa.Array]:
    """Return the columns where nothing may be shown, as in test mode."""
    return {name: pa.nulls(rows, kind) for name, kind in BVN_FIELDS}
