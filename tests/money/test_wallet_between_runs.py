"""Money that leaves the wallet between runs: reported, and open until its reason is noted."""

from __future__ import annotations

from typing import Any

import pytest

from nightscreen.journal.actor import Actor
from nightscreen.journal.opening import open_journal
from nightscreen.journal.settling import explain_gap, open_gaps
from nightscreen.ops.doctor import WARNING, diagnose
from nightscreen.report.page import attention
from nightscreen.schemas.errors import InputError, NotAllowedError
from nightscreen.schemas.wallet import EXPLAINED, WalletGap
from tests.screening import World, customer

NAIRA = 1_000_000
ROWS = [customer(number) for number in range(1, 5)]
MORE = [customer(number) for number in range(11, 15)]


def two_nights(world: World, *, taken: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Screen twice; between the runs some naira leave the wallet, or are added if negative."""
    first = world.screen(ROWS).report
    wallet = world.sandbox.wallet
    wallet.drain(taken * NAIRA) if taken > 0 else wallet.top_up(-taken * NAIRA)
    return first, world.screen(MORE).report


def gaps(world: World) -> list[WalletGap]:
    with open_journal(world.folder / "home") as journal:
        return open_gaps(journal)


def wallet_standing(world: World) -> str | None:
    """Return the doctor's verdict on the wallet; None without a finding."""
    findings = diagnose(world.read_settings()).findings
    return {each.name: each.standing for each in findings}.get("wallet")


def test_missing_money_is_reported_until_its_reason_is_noted(world: World) -> None:
    """The report shows the amount and both runs, doctor warns, and the gap is open in the journal.

    A reason is required and noted once; then the gap is closed, also after a resume. If others use
    the wallet too, gaps are not reported.
    """
    first, second = two_nights(world, taken=241_605)
    run_id = str(second["run_id"])
    between = {"run_before": first["run_id"], "missing": "241605.00"}
    assert second["balance"]["between_runs"] == between
    (line,) = [each for each in attention(second) if "241,605" in each]
    assert str(first["run_id"]) in line
    assert wallet_standing(world) == WARNING
    (gap,) = gaps(world)
    assert (gap.key, gap.micro) == (run_id, 241_605 * NAIRA)
    ada = Actor("Ada", frozenset({"settle"}))
    with open_journal(world.folder / "home") as journal:
        with pytest.raises(NotAllowedError):
            explain_gap(journal, Actor("Bem", frozenset()), run_id, "mine")
        with pytest.raises(InputError):
            explain_gap(journal, ada, run_id, " ")
        noted = explain_gap(journal, ada, run_id, "tests of the mobile app")
        assert (noted.state, noted.by) == (EXPLAINED, "Ada")
        with pytest.raises(InputError):
            explain_gap(journal, ada, run_id, "once more")
    assert not gaps(world)
    world.screen(run=run_id)
    assert not gaps(world)
    assert wallet_standing(world) is None
    world.settings["wallet_shared"] = True
    world.sandbox.wallet.drain(500 * NAIRA)
    assert "between_runs" not in world.screen([customer(21)]).report["balance"]
    assert not gaps(world)
