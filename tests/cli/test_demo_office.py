"""What `up --demo` opens with: nights that lie behind, and work that waits for somebody else."""

from __future__ import annotations

from pathlib import Path

import httpx

from nightscreen.cli.demo_office import ANALYST, BATCH, USERS, seed_demo
from nightscreen.config.settings import read_settings
from nightscreen.desk.accounts import Accounts
from nightscreen.journal import journal_of
from nightscreen.journal.approvals import Approvals
from nightscreen.journal.cases import Reviews
from nightscreen.journal.records import Records
from nightscreen.policy.versions import version_in_force, versions
from nightscreen.sandbox.app import application
from nightscreen.sandbox.state import Sandbox
from nightscreen.schemas.clock import DAY_MICROS, spending_day
from nightscreen.schemas.contests import Contest, ContestState, PolicyState

NIGHTS = 2


def test_the_demo_opens_with_work_for_everybody(tmp_path: Path) -> None:
    """One night a day, a file that waits for approval, and what an analyst left for others."""
    sandbox = Sandbox()
    settings = read_settings(
        _env_file=None,
        base_url="http://127.0.0.1:1",
        api_key="sandbox-key",
        home=tmp_path / "home",
        override_above="50000",
    )
    transport = httpx.ASGITransport(application(sandbox))
    tokens = seed_demo(
        tmp_path, settings, 60, seed=1, damage_pct=5.0, nights=NIGHTS, transport=transport
    )

    with journal_of(settings) as journal:
        accounts = Accounts(journal)
        whose = {name: accounts.link_for(token) for name, token in tokens.items()}
        assert {name: user and user.name for name, user in whose.items()} == {
            name: name for name in USERS
        }
        assert all(not user.asleep for user in accounts.users())

        nights = journal.runs.newest(batch=BATCH)
        assert [run.state for run in nights] == ["completed"] * NIGHTS
        assert len({spending_day(run.started_at) for run in nights}) == NIGHTS
        assert nights[0].started_at - nights[-1].started_at > (NIGHTS - 1.1) * DAY_MICROS
        assert nights[0].report is not None
        assert nights[0].report["rows"]["quarantined"] > 0  # a file to fix

        (waiting,) = Approvals(journal).waiting()
        assert waiting.asked_by == ANALYST
        (override,) = Reviews(journal).waiting()
        assert override.reviewer == ANALYST
        (contest,) = Records(journal, Contest).all()
        assert contest.state == ContestState.OPEN
        in_force = version_in_force(journal, journal.clock())
        assert in_force is not None
        assert in_force.proposed_by != in_force.decided_by
        assert [each.state for each in versions(journal)] == [
            PolicyState.APPROVED,
            PolicyState.PROPOSED,
        ]
