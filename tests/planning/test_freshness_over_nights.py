"""How old an answer may be, over several nights: each outcome has its own limit."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import delete

from nightscreen.journal.engine import writing
from nightscreen.journal.schema import answers
from nightscreen.runs.screening_run import ScreeningRun
from nightscreen.sandbox.people import account_of
from nightscreen.schemas.clock import MICROS
from tests.screening import CONSENT, Night, Unasked, World, customer

DAY = 24 * 3600 * MICROS
START = 1_780_000_000 * MICROS
CHECKS = ("bank_account", "karma", "ecosystem")
LIMITS = (
    *("bank_account.found", "bank_account.not_found", "karma.clear", "karma.listed"),
    *("ecosystem.found", "ecosystem.not_found"),
)


@dataclass
class Nights:
    """Nights of one batch, at instants a test chooses."""

    world: World
    now: int = START

    def screen(self, *given: Any, **options: Any) -> Night:  # noqa: ANN401
        return self.world.screen(*given, **options)

    def after(self, days: float) -> Nights:
        self.now += int(days * DAY)
        return self


@pytest.fixture
def nights(tmp_path: Path) -> Nights:
    """Return nights of a batch, whose clock goes on by a second whenever it is read."""
    nights = Nights(World(tmp_path))

    def clock() -> int:
        nights.now += MICROS
        return nights.now

    nights.world.clock = clock
    return nights


def person(number: int, *, known_as: str = "") -> dict[str, str]:
    """Return a customer with consent; `known_as` makes their account somebody else's."""
    consent = {**CONSENT, "consented_at": "2026-05-01T09:00:00"}
    row = customer(number, **consent)
    if known_as:
        row |= {"first_name": "Nobody", "last_name": "Whatsoever", "customer_id": known_as}
        row["bvn"] = "22999999998"
    return row


def test_an_account_is_asked_again_by_its_outcome(nights: Nights) -> None:
    """One age for every account that exists, whether it is this customer's or a stranger's."""
    theirs = next(row for row in map(person, range(1, 31)) if _is_theirs(row))
    stranger = {**person(1, known_as="B"), **_account(theirs)}
    rows = [theirs, stranger]
    nights.screen(rows, checks=["bank_account"])
    nights.after(20)
    for limit, source in ((30, ["reused"] * 2), (14, ["asked", "shared"])):
        given = [f"bank_account.found={limit}"]
        night = nights.screen(rows, checks=["bank_account"], freshness=given)
        assert night.column("bank_account_status") == ["verified", "mismatch"]
        assert night.column("bank_account_source") == source


def _is_theirs(row: dict[str, str]) -> bool:
    """Return whether the sandbox has a customer's account under the customer's own names."""
    account = account_of(row["bank_code"], row["account_number"])
    names = {row["first_name"].upper(), row["last_name"].upper()}
    return account is not None and names <= set(str(account["account_name"]).split())


def test_what_a_run_asked_is_fresh_in_it_and_whenever_it_is_resumed(nights: Nights) -> None:
    """With limits of nothing a resume, days later, asks only what the cap had left."""
    rows = [person(number) for number in range(1, 17)]
    limits = [f"{name}=0" for name in LIMITS]
    nights.screen(rows)
    first = nights.after(1).screen(rows, freshness=limits, max_spend="80")
    assert first.report["stop_reason"] == "budget"
    asked = len(nights.world.calls())
    nights.after(2).screen(rows, freshness=limits)  # another run, whose answers are newer still
    between = len(nights.world.calls()) - asked
    second = nights.after(3).screen(run=first.report["run_id"], max_spend="100000")
    assert second.report["state"] == "completed"
    answered = {check: first.report["checks"][check] for check in CHECKS}
    open_ = sum(part["distinct"] - part["paid"] - part["free"] for part in answered.values())
    assert len(nights.world.calls()) == asked + between + open_


def test_a_run_whose_answers_were_erased_meanwhile_is_not_completed(nights: Nights) -> None:
    """What the plan would reuse is gone when rows are written: the run stops, to be resumed."""
    rows = [person(number) for number in range(1, 5)]
    nights.screen(rows, checks=["karma"])
    folder = nights.world.folder

    def erase_one(run: ScreeningRun) -> None:
        with writing(run.journal.engine) as connection:
            connection.execute(delete(answers).where(answers.c.answer_id == 4))

    given = str(folder / "customers.csv")
    nights.world.is_damaged = True
    night = nights.world.screen_by(Unasked(erase_one), input=given, checks=["karma"])
    assert (night.report["state"], night.report["stop_reason"]) == ("stopped", "failures")
    assert not night.report["publishable"]
    assert night.column("karma_status").count("pending") == 1
    again = nights.screen(run=night.report["run_id"])
    assert again.report["state"] == "completed"


def _account(row: dict[str, str]) -> dict[str, str]:
    return {name: row[name] for name in ("account_number", "bank_code")}
