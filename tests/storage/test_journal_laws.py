"""Laws of the journal's money, at any interleaving of two processes (hypothesis, stateful)."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from nightscreen.journal.verify import verify_journal
from nightscreen.schemas.calls import (
    KEPT_STATES,
    CallState,
    Caps,
    Reservation,
    ReservationStatus,
    ReserveRequest,
)
from nightscreen.schemas.clock import MICROS
from tests.how_many import examples
from tests.storage.conftest import PRICE, Place, ended, reserve, subject

CAPS = Caps(
    run_micro=7 * PRICE,
    day_micro=12 * PRICE + PRICE // 2,
    month_micro=20 * PRICE,
    day_calls=(("karma", 11),),
)
HOURS_20 = 20 * 3600 * MICROS


class TwoProcesses(RuleBasedStateMachine):
    """Two openings of one journal reserve, settle, lose answers, die and come back."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.place = Place(Path(self.folder.name) / "home", "")
        self.openings = [self.place.open(), self.place.open()]
        self.flying: list[tuple[int, str, tuple[ReserveRequest, Reservation]]] = []
        self.excess = 0
        self.next = 0

    @rule(
        who=st.integers(0, 1),
        run=st.sampled_from(["a", "b"]),
        numbers=st.lists(st.integers(0, 12), min_size=1, max_size=6),
    )
    def reserve(self, who: int, run: str, numbers: list[int]) -> None:
        """Ask for a block; what is granted is asked by nobody else who is alive."""
        asked = {pair[0].subject for _, _, pair in self.flying}
        for pair in reserve(self.openings[who], *numbers, caps=CAPS, run=run):
            if pair[1].kind is ReservationStatus.GRANTED:
                assert pair[0].subject not in asked
                asked.add(pair[0].subject)
                self.flying.append((who, run, pair))

    @rule(
        at=st.integers(0, 50),
        state=st.sampled_from(list(CallState)[1:]),
        cost=st.sampled_from([None, 0, PRICE // 2, PRICE, PRICE + 7]),
        twice=st.booleans(),
    )
    def settle(self, at: int, state: CallState, cost: int | None, *, twice: bool) -> None:
        """Settle a call in flight somehow, once or twice."""
        if not self.flying:
            return
        who, run, pair = self.flying.pop(at % len(self.flying))
        outcome = ended(pair, state, cost=cost)
        journal = self.openings[who]
        reserved = next(
            row.reserved_micro
            for rows in journal.runs.calls(run)
            for row in rows
            if row.call_id == pair[1].call_id
        )
        self.excess += max(0, (outcome.cost_micro or 0) - reserved)
        for _ in range(1 + twice):
            journal.calls.settle(run, [outcome])

    @rule(who=st.integers(0, 1))
    def die_and_come_back(self, who: int) -> None:
        """Everything in flight of that process is in doubt, and nothing else."""
        self.openings[who].close()
        self.openings[who] = self.place.open()
        lost = sum(owner == who for owner, _, _ in self.flying)
        assert self.openings[1 - who].calls.recover() <= lost
        self.flying = [each for each in self.flying if each[0] != who]

    @rule()
    def let_time_pass(self) -> None:
        """Go on by most of a day."""
        self.place.clock.now += HOURS_20

    @invariant()
    def the_counters_equal_the_calls(self) -> None:
        """Counters, answers and seals agree with the calls."""
        assert verify_journal(self.openings[0]) == []

    @invariant()
    def no_cap_is_passed(self) -> None:
        """Spent and reserved stay under every cap, but for what prices rose in flight."""
        money = self.openings[1].money
        for run in ("a", "b"):
            assert money.of_run(run).bound_micro <= 7 * PRICE + self.excess
        assert money.today().bound_micro <= 12 * PRICE + PRICE // 2 + self.excess
        assert money.this_month().bound_micro <= 20 * PRICE + self.excess
        assert all(spent.calls <= 11 for _, _, spent in money.by_day())
        reported = sum(each.excess_micro for run in ("a", "b") for each in money.surprises(run))
        assert reported == self.excess

    @invariant()
    def every_subject_has_its_latest_answer(self) -> None:
        """Reading in bulk gives the answer of the newest answered call."""
        subjects = [subject(number) for number in range(13)]
        found = self.openings[0].answers.latest("karma", subjects, bodies=False)
        newest: dict[bytes, int] = {}
        for run in ("a", "b"):
            for rows in self.openings[0].runs.calls(run):
                for row in rows:
                    if row.state in KEPT_STATES:
                        at = (row.settled_at, row.call_id)
                        newest[row.subject] = max(newest.get(row.subject, 0), at[0])
        assert {key: each.answered_at for key, each in found.items()} == newest

    def teardown(self) -> None:
        """Close and remove everything."""
        self.place.close()
        self.folder.cleanup()


TestTwoProcesses = TwoProcesses.TestCase
TestTwoProcesses.settings = settings(
    max_examples=examples(12),
    stateful_step_count=20,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
