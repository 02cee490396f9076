"""A lender's office for `up --demo`: two weeks of nights, four users, and work that waits for them.

Everything in it is made as a lender's own people would make it: nights are screened against the
simulator with a clock that is set back, cases are reviewed, an override, a contest, a policy and an
applicants' file wait for somebody else.
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
from nightscreen.results.settle_case import import_reviews
from nightscreen.runs.approval import may_spend
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
    from nightscreen.runs.screening_run import ScreeningRun

NIGHTS: Final = 14
BATCH: Final = "portfolio"
ANALYST, APPROVER = "Ada", "Bem"
USERS: Final = {
    ANALYST: (Role.ANALYST,),
    APPROVER: (Role.APPROVER,),
    "Ngozi": (Role.APPROVER, Role.ADMINISTRATOR),
    "Tari": (Role.AUDITOR, Role.PRIVACY),
}
"""In this order: rights of a user who is made while there are two approvers sleep at first."""
APPLICANTS: Final = 60
_NEW_EACH_NIGHT: Final = 15
_REVIEWED: Final = 6
_CEILING: Final = Decimal(500)
"""Naira that a file of applicants may cost without an approval."""
_SINCE_NIGHT: Final = timedelta(hours=4)  # a choice: as at a desk in the morning
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
    """Make all of it, and return the token of each user's link.

    Args:
        folder: holds the batches; results are in `out`.
        settings: of its runs.
        rows: customers of tonight's portfolio, which grew by a few each night.
        seed: chooses the people.
        damage_pct: share of rows with bad data, in percent.
        nights: how many lie behind.
        transport: carries calls in place of sockets.
    """

    def screen(path: Path, given: dict[str, Any], runner: Runner, **how: Any) -> None:  # noqa: ANN401 - as `run_screening` has them
        given |= {"input": str(path), "output": str(folder / "out")}
        parameters, how = ScreenBatch.model_validate(given), {"settings": settings, **how}
        asyncio.run(run_screening(parameters, transport=transport, runner=runner, **how))

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
    screen(path, applicants, _AskedBy(ANALYST), settings=limited)
    _work_a_morning(settings)
    return tokens


def _add_users(settings: Settings, nights: int) -> dict[str, str]:
    """Make the users before the first night, and return the token of each one's link.

    They put the default policy in force. By the link a user sets a password; it is good once and
    for a day.
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
    """Review some cases; have an override, a contest and a policy wait for somebody else."""
    analyst = _actor(ANALYST)
    with journal_of(settings) as journal:
        cases = Records(journal, OpenCase).all()
        cases.sort(key=lambda case: case.exposure or Decimal(0), reverse=True)
        to_review = [case for case in cases if case.decision == Decision.REVIEW]
        declined = [case for case in cases if case.decision == Decision.DECLINE]
        reviewed = [
            (e, "The branch has seen the customer's papers") for e in to_review[1:][:_REVIEWED]
        ]
        reviewed += [(e, "The old lender confirms that it is repaid") for e in declined[:1]]
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
            said = "The loan is not mine: I never borrowed from this lender."
            whose = case.customer_id
            open_contest(journal, analyst, settings.contest, whose, said=said, batch=BATCH)
        text = rewritten(read_text(None), "demo-2", _THRESHOLDS)
        propose(journal, text, by=ANALYST, note="Minutes of the credit committee.")


class _AskedBy(Runner):
    """Has runs wait for approval as asked for by a user of the desk."""

    def __init__(self, name: str) -> None:
        self._name = name

    async def may_spend(self, run: ScreeningRun) -> bool:
        """Write the request where one is needed."""
        return may_spend(run, by=self._name)


def _actor(name: str) -> Actor:
    return Actor(name, frozenset().union(*(ALLOWED[role] for role in USERS[name])), alone=False)


def _clock(days: int) -> Clock:
    """Return a clock that is set back by some days and the hours since the night."""
    behind = span_micros(timedelta(days=days) + _SINCE_NIGHT)
    return lambda: system_clock() - behind
