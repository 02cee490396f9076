"""How old an answer may be, over several nights: each outcome has its own limit."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pytest
from sqlalchemy import delete

from nightscreen.journal.schema import answers
from nightscreen.runs.screening_run import ScreeningRun
from nightscreen.schemas.clock import MICROS
from tests.journal.conftest import TestClock
from tests.screening import CONSENT, Unasked, World, customer

DAY = 24 * 3600 * MICROS
START = 1_780_000_000 * MICROS
CHECKS = ("bank_account", "karma", "ecosystem")
LIMITS = (
    *("bank_account.found", "bank_account.not_found", "karma.clear", "karma.listed"),
    *("ecosystem.found", "ecosystem.not_found"),
)


@dataclass
class Nights(World):
    """Nights of one batch, at instants a test chooses; the clock goes on whenever it is read."""

    clock: TestClock = field(default_factory=lambda: TestClock(START))

    def after(self, days: float) -> Nights:
        self.clock.now += int(days * DAY)
        return self


@pytest.fixture
def nights(tmp_path: Path) -> Nights:
    return Nights(tmp_path)


def person(number: int) -> dict[str, str]:
    """Return a customer who consented before these nights."""
    return customer(number, **{**CONSENT, "consented_at": "2026-05-01T09:00:00"})


def test_what_a_run_asked_is_fresh_in_it_and_whenever_it_is_resumed(nights: Nights) -> None:
    """With limits of nothing a resume, days later, asks only what the cap had left."""
    rows = [person(number) for number in range(1, 11)]
    limits = [f"{name}=0" for name in LIMITS]
    nights.screen(rows)
    first = nights.after(1).screen(rows, freshness=limits, max_spend="50")
    assert first.report["stop_reason"] == "budget"
    asked = len(nights.calls())
    nights.after(2).screen(rows, freshness=limits)  # another run, whose answers are newer still
    between = len(nights.calls()) - asked
    second = nights.after(3).screen(run=first.report["run_id"], max_spend="100000")
    assert second.report["state"] == "completed"
    answered = {check: first.report["checks"][check] for check in CHECKS}
    open_ = sum(part["distinct"] - part["paid"] - part["free"] for part in answered.values())
    assert len(nights.calls()) == asked + between + open_


def test_a_run_whose_answers_were_erased_meanwhile_is_not_completed(nights: Nights) -> None:
    """What the plan would reuse is gone when rows are written: the run stops, to be resumed."""
    rows = [person(number) for number in range(1, 5)]
    nights.screen(rows, checks=["karma"])
    folder = nights.folder

    def erase_one(run: ScreeningRun) -> None:
        with run.journal.database.writing() as connection:
            connection.execute(delete(answers).where(answers.c.answer_id == 4))

    given = str(folder / "customers.csv")
    nights.is_damaged = True
    night = nights.screen_by(Unasked(erase_one), input=given, checks=["karma"])
    assert (night.report["state"], night.report["stop_reason"]) == ("stopped", "failures")
    assert not night.report["publishable"]
    assert night.column("karma_status").count("pending") == 1
    again = nights.screen(run=night.report["run_id"])
    assert again.report["state"] == "completed"
