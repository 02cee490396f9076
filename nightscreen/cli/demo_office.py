"""Sample data for `up --demo`: two weeks of nights, four users, and work that waits for them.

It is made by the functions that a lender's users call: nights are screened against the simulator
with the clock set back, cases are reviewed, and an override, a contest, a policy and a file of
applicants wait for a second person.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from nightscreen.config.parameters import ScreenBatch
from nightscreen.desk.accounts import Accounts
from nightscreen.journal import journal_of
from nightscreen.journal.actor import Actor
from nightscreen.journal.records import Records
from nightscreen.policy.load import read_text, rewritten
from nightscreen.policy.versions import decide_version, propose
from nightscreen.privacy.contests import open_contest
from nightscreen.results.reviews import import_reviews
from nightscreen.runs.runner import Runner
from nightscreen.runs.screening import run_screening
from nightscreen.sandbox.batch import make_batch
from nightscreen.schemas.cases import OpenCase
from nightscreen.schemas.clock import Clock, lagos_day, span_micros, system_clock
from nightscreen.schemas.contests import PolicyState
from nightscreen.schemas.decisions import ReviewRow
from nightscreen.schemas.policy import Decision
from nightscreen.schemas.users import ALLOWED, Role

if TYPE_CHECKING:
    from pathlib import Path

    from nightscreen.client.transport import Transport
    from nightscreen.config.settings import Settings

NIGHTS: Final = 14
BATCH: Final = "portfolio"
ANALYST, APPROVER = "Ada", "Bem"
USERS: Final = {
    ANALYST: (Role.ANALYST,),
    APPROVER: (Role.APPROVER,),
    "Ngozi": (Role.APPROVER, Role.ADMINISTRATOR),
    "Tari": (Role.AUDITOR, Role.PRIVACY),
}
"""In this order: a user added when there are two approvers gets some rights only once confirmed."""
APPLICANTS: Final = 60
_NEW_EACH_NIGHT: Final = 15
_REVIEWED: Final = 6
_CEILING: Final = Decimal(500)
"""Naira that a file of applicants may cost without approval."""
_SINCE_NIGHT: Final = timedelta(hours=4)  # a choice: it is morning at the desk
_THRESHOLDS: Final = {"past_due_naira": Decimal(20_000), "stacking_loans": Decimal(4)}


def seed_demo(
    folder: Path,
    settings: Settings,
    rows: int,
    *,
    seed: int,
    damage_pct: float,
    nights: int = NIGHTS,
    transport: Transport | None = None,
) -> dict[str, str]:
    """Make the sample data; return the token of each user's link.

    Args:
        folder: holds the batches; results are in `out`.
        settings: the settings of its runs.
        rows: customers in tonight's portfolio; it grew by a few each night.
        seed: chooses the people.
        damage_pct: share of rows with bad data, in percent.
        nights: number of past nights.
        transport: replaces the network in tests.
    """

    def screen(path: Path, options: dict[str, Any], runner: Runner, **more: Any) -> None:  # noqa: ANN401 - as `run_screening` takes them
        options |= {"input": str(path), "output": str(folder / "out")}
        parameters, more = ScreenBatch.model_validate(options), {"settings": settings, **more}
        asyncio.run(run_screening(parameters, transport=transport, runner=runner, **more))

    tokens = _add_users(settings, nights)
    path, today = folder / "customers.csv", lagos_day(_clock(nights)())
    for days in reversed(range(nights)):
        number = max(1, rows - days * _NEW_EACH_NIGHT)
        make_batch(path, rows=number, seed=seed, damage_pct=damage_pct, today=today)
        screen(path, {"batch": BATCH, "yes": True}, Runner(), clock=_clock(days))
    path = folder / "applicants.csv"
    make_batch(path, rows=APPLICANTS, seed=seed + 1, damage_pct=0)
    applicants = {"batch": "applicants", "purpose": "origination", "max_spend": "10000"}
    limited = settings.model_copy(update={"approval_above": _CEILING})
    runner = Runner()
    runner.by = ANALYST
    screen(path, applicants, runner, settings=limited)
    _work_a_morning(settings)
    return tokens


def _add_users(settings: Settings, nights: int) -> dict[str, str]:
    """Add the users before the first night; return the token of each user's link.

    They put the default policy in force. A user sets a password with the link; it works once,
    within a day.
    """
    with journal_of(settings, clock=_clock(nights)) as journal:
        accounts = Accounts(journal)
        for name, roles in USERS.items():
            accounts.add(name, roles)
        proposed = propose(journal, read_text(None), by=ANALYST, note="The first policy.")
        decide_version(journal, _actor(APPROVER), proposed.key, PolicyState.APPROVED)
    with journal_of(settings) as journal:
        accounts = Accounts(journal)
        return {name: accounts.link(name) for name in USERS}


def _work_a_morning(settings: Settings) -> None:
    """Review some cases; leave an override, a contest and a policy to a second person."""
    analyst = _actor(ANALYST)
    with journal_of(settings) as journal:
        cases = Records(journal, OpenCase).all()
        cases.sort(key=lambda case: case.exposure or Decimal(0), reverse=True)
        to_review = [case for case in cases if case.decision == Decision.REVIEW]
        declined = [case for case in cases if case.decision == Decision.DECLINE]
        reviewed = [
            (case, "The branch has seen the customer's papers")
            for case in to_review[1:][:_REVIEWED]
        ]
        reviewed += [(case, "The old lender confirms that it is repaid") for case in declined[:1]]
        for case, note in reviewed:
            cells = {
                "customer_id": case.customer_id,
                "run_id": case.run_id,
                "reviewer_decision": Decision.APPROVE.value,
                "reviewer": ANALYST,
                "review_note": note,
            }
            import_reviews(journal, analyst, [ReviewRow(0, "", cells)], settings)
        for case in declined[1:2]:
            statement = "The loan is not mine: I never borrowed from this lender."
            customer_id, rules = case.customer_id, settings.contest
            open_contest(journal, analyst, rules, customer_id, said=statement, batch=BATCH)
        text = rewritten(read_text(None), "demo-2", _THRESHOLDS)
        propose(journal, text, by=ANALYST, note="Minutes of the credit committee.")


def _actor(name: str) -> Actor:
    return Actor(name, frozenset().union(*(ALLOWED[role] for role in USERS[name])), alone=False)


def _clock(days: int) -> Clock:
    """Return a clock set back by some days, and by the hours since the nightly run."""
    set_back = span_micros(timedelta(days=days) + _SINCE_NIGHT)
    return lambda: system_clock() - set_back
