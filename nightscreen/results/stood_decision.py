"""The decision that stood at an instant: what had been decided when the money went out.

Read from the journal's states and reviews, in every batch name that knows the customer. What became
of the loan is `outcomes`.
"""

from __future__ import annotations

import csv
from bisect import bisect_right
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nightscreen.files.outputs import SHADOW_FILE
from nightscreen.files.quarantine import escape_formula
from nightscreen.files.sealing import pieces_of
from nightscreen.journal.customers import Customers
from nightscreen.journal.reviews import Reviews
from nightscreen.results.tracked_state import evidence_digest
from nightscreen.schemas.decisions import DECISION_PART, LISTED_PART
from nightscreen.schemas.outcomes import StoodDecision

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nightscreen.journal import Journal
    from nightscreen.journal.runs import RunRecord
    from nightscreen.schemas.contests import Review
    from nightscreen.schemas.decisions import KnownCustomer

Asked = tuple[str, int]
"""A customer's id and an instant in microseconds."""


class StoodDecisions:
    """Finds the decisions that stood."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._customers = Customers.of(journal)
        self._runs: dict[str, RunRecord | None] = {}
        self._shadows: dict[str, dict[str, str] | None] = {}

    def find(self, asked: Sequence[Asked]) -> list[StoodDecision | None]:
        """Return for each customer and instant the newest decision of any batch name by then."""
        found: list[tuple[int, StoodDecision] | None] = [None] * len(asked)
        for batch in self._customers.batches():
            for place, decided in self._of_batch(batch, asked).items():
                before = found[place]
                if before is None or before[0] < decided[0]:
                    found[place] = decided
        return [None if each is None else each[1] for each in found]

    def _of_batch(self, batch: str, asked: Sequence[Asked]) -> dict[int, tuple[int, StoodDecision]]:
        """Return what stood in one batch name, by the place of who is asked about, and since when.

        States change only where a run is committed, so that all instants between two runs are
        looked up at once.
        """
        commits = self._customers.commits(batch)
        ends = [commit.last_at for _, commit in commits]
        places: dict[int, list[int]] = defaultdict(list)
        for place, (_, at) in enumerate(asked):
            if number := bisect_right(ends, at):
                places[number - 1].append(place)
        if not places:
            return {}
        reviews: dict[bytes, list[Review]] = defaultdict(list)
        for review in Reviews.of(self._journal).of_batch(batch):
            reviews[review.customer].append(review)
        found = {}
        for number, mine in places.items():
            run_id, commit = commits[number]
            joined = self._journal.pseudonyms.customers(batch, [asked[at][0] for at in mine])
            subjects = pieces_of(joined)
            known = self._customers.known_before(subjects, commit.last_at + 1)
            for place, subject in zip(mine, subjects, strict=True):
                state = known.get(subject)
                if state is not None:
                    own = reviews.get(subject, ())
                    stood = self._stood(batch, run_id, state, own, asked[place])
                    found[place] = (0 if state.gone_run_id else commit.last_at, stood)
        return found

    def _stood(
        self,
        batch: str,
        run_id: str,
        known: KnownCustomer,
        reviews: Sequence[Review],
        asked: Asked,
    ) -> StoodDecision:
        (customer_id, at), state = asked, known.state
        listed = state.get(LISTED_PART)
        word = "undecided" if listed is None else listed.values["decision"]
        part = state.get(DECISION_PART)
        reasons = ""
        if part is not None and part.values["decision"] == word:
            reasons = part.values["reasons"]
        evidence = evidence_digest(state)
        holding = [
            each for each in reviews if each.reviewed_at <= at < each.until
            and each.evidence == evidence
        ]  # fmt: skip
        return StoodDecision(
            batch=batch,
            run_id=run_id,
            decision=holding[-1].decision if holding else word,
            decided_by="review" if holding else "policy",
            reasons=tuple(each for each in reasons.split(", ") if each),
            policy=self._report(run_id).get("provenance", {}).get("policy"),
            **self._shadow(run_id, customer_id, word),
        )

    def _run(self, run_id: str) -> RunRecord | None:
        if run_id not in self._runs:
            self._runs[run_id] = self._journal.runs.find(run_id)
        return self._runs[run_id]

    def _report(self, run_id: str) -> Mapping[str, Any]:
        run = self._run(run_id)
        return {} if run is None or run.report is None else run.report

    def _shadow(self, run_id: str, customer_id: str, decided: str) -> dict[str, str]:
        """Return what a policy said that was tried beside the one in force, if its file is there.

        The file lists whom it would have decided otherwise.
        """
        run, tried = self._run(run_id), self._report(run_id).get("shadow")
        if run is None or tried is None:
            return {}
        if run_id not in self._shadows:
            self._shadows[run_id] = _listed(Path(run.folder) / SHADOW_FILE)
        moved = self._shadows[run_id]
        if moved is None:
            return {}
        word = moved.get(escape_formula(customer_id), decided)
        return {"shadow": word, "shadow_policy": tried["policy"]}


def _listed(path: Path) -> dict[str, str] | None:
    """Return what each customer of the list would have been decided; None without a list."""
    try:
        with path.open(encoding="utf-8", newline="") as lines:
            return {row["customer_id"]: row["shadow_decision"] for row in csv.DictReader(lines)}
    except OSError:
        return None
