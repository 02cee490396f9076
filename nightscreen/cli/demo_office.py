"""A lender's office for `up --demo`: two weeks of nights, four users, and work that waits for them.

Everything in it is made as a lender's own people would make it: nights are screened against the
simulator with a clock that is set back, cases are reviewed, an override, a contest, a policy and an
applicants' file wait for somebody else.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Final

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
    from nightscreen.journal import Journal
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


@dataclass(frozen=True, slots=True)
class Office:
    """Where the office is, and who carries its calls.

    Attributes:
        folder: holds the batches; results are in `out`.
        settings: of its runs.
        seed: chooses the people.
        damage_pct: share of rows with bad data, in percent.
        transport: carries calls in place of sockets.
    """

    folder: Path
    settings: Settings
    seed: int
    damage_pct: float
    transport: Transport | None = None

    def furnish(self, rows: int, nights: int = NIGHTS) -> dict[str, str]:
        """Make all of it, and return the token of each user's link."""
        tokens = self.add_users(nights)
        self.screen_nights(rows, nights)
        self.add_applicants()
        self.work_a_morning()
        return tokens

    def screen_nights(self, rows: int, nights: int) -> None:
        """Screen a portfolio that grows by a few customers each night, tonight's last."""
        first = lagos_day(_clock(nights)())
        for days in reversed(range(nights)):
            path = self.folder / "customers.csv"
            number = max(1, rows - days * _NEW_EACH_NIGHT)
            make_batch(path, rows=number, seed=self.seed, damage_pct=self.damage_pct, today=first)
            parameters = self._parameters(path, BATCH, yes=True)
            self._screen(parameters, self.settings, _clock(days), Runner())

    def add_applicants(self) -> None:
        """Have a file of applicants wait for approval of what it may cost."""
        path = self.folder / "applicants.csv"
        make_batch(path, rows=APPLICANTS, seed=self.seed + 1, damage_pct=0)
        parameters = self._parameters(path, "applicants", purpose="origination", max_spend="10000")
        settings = self.settings.model_copy(update={"approval_above": _CEILING})
        self._screen(parameters, settings, system_clock, _AskedBy(ANALYST))

    def _parameters(self, path: Path, batch: str, **more: object) -> ScreenBatch:
        given = {"input": str(path), "batch": batch, "output": str(self.folder / "out")}
        return ScreenBatch.model_validate(given | more)

    def _screen(
        self, parameters: ScreenBatch, settings: Settings, clock: Clock, runner: Runner
    ) -> None:
        screening = run_screening(
            parameters, settings, transport=self.transport, clock=clock, runner=runner
        )
        asyncio.run(screening)

    def add_users(self, nights: int) -> dict[str, str]:
        """Make the users before the first night, and return the token of each one's link.

        They put the default policy in force. By the link a user sets a password; it is good once
        and for a day.
        """
        with journal_of(self.settings, clock=_clock(nights)) as journal:
            accounts = Accounts(journal)
            for name, roles in USERS.items():
                accounts.add(name, roles)
            proposed = propose(journal, read_text(None), by=ANALYST, note="The first policy.")
            decide_version(journal, _actor(APPROVER), proposed.key, PolicyState.APPROVED)
        with journal_of(self.settings) as journal:
            accounts = Accounts(journal)
            return {name: accounts.link(name) for name in USERS}

    def work_a_morning(self) -> None:
        """Review some cases; have an override, a contest and a policy wait for somebody else."""
        analyst = _actor(ANALYST)
        with journal_of(self.settings) as journal:
            cases = sorted(Records(journal, OpenCase).all(), key=_exposure, reverse=True)
            to_review = [case for case in cases if case.decision == Decision.REVIEW]
            declined = [case for case in cases if case.decision == Decision.DECLINE]
            for case in to_review[1 : 1 + _REVIEWED]:
                self._decide(journal, analyst, case, "The branch has seen the customer's papers")
            for case in declined[:1]:
                self._decide(journal, analyst, case, "The old lender confirms that it is repaid")
            for case in declined[1:2]:
                open_contest(
                    journal,
                    analyst,
                    self.settings.contest,
                    case.customer_id,
                    said="The loan is not mine: I never borrowed from this lender.",
                    batch=BATCH,
                )
            text = rewritten(read_text(None), "demo-2", _THRESHOLDS)
            propose(journal, text, by=ANALYST, note="Minutes of the credit committee.")

    def _decide(self, journal: Journal, actor: Actor, case: OpenCase, note: str) -> None:
        cells = {
            "customer_id": case.customer_id,
            "run_id": case.run_id,
            "reviewer_decision": Decision.APPROVE.value,
            "reviewer": actor.name,
            "review_note": note,
        }
        import_reviews(journal, actor, [ReviewRow(0, "", cells)], self.settings)


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


def _exposure(case: OpenCase) -> Decimal:
    return case.exposure or Decimal(0)
