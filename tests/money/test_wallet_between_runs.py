"""Money that leaves the wallet while no run asks: reported, kept until its reason is noted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nightscreen.journal.actor import Actor
from nightscreen.journal.opening import Journal, open_journal
from nightscreen.journal.wallet import explain_gap, open_gaps
from nightscreen.ops.doctor import WARNING, diagnose
from nightscreen.report.verdict import attention
from nightscreen.schemas.errors import InputError, NotAllowedError
from nightscreen.schemas.wallet import EXPLAINED
from tests.screening import World, customer

NAIRA = 1_000_000
ROWS = [customer(number) for number in range(1, 5)]
MORE = [customer(number) for number in range(11, 15)]


@pytest.fixture
def world(tmp_path: Path) -> World:
    """A lender whose wallet somebody else may use between the nights."""
    return World(tmp_path)


@pytest.fixture
def journal(world: World) -> Iterator[Journal]:
    """The lender's journal, after its nights."""
    settings = world.read_settings()
    with open_journal(settings.home) as found:
        yield found


def two_nights(world: World, *, taken: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Screen twice; meanwhile so many naira leave the wallet, or come into it."""
    first = world.screen(ROWS).report
    wallet = world.sandbox.wallet
    wallet.drain(taken * NAIRA) if taken > 0 else wallet.top_up(-taken * NAIRA)
    return first, world.screen(MORE).report


def test_missing_money_is_reported_with_its_amount_and_both_runs(
    world: World, request: pytest.FixtureRequest
) -> None:
    """The report says so, doctor warns, and the journal keeps it open."""
    first, second = two_nights(world, taken=241_605)
    between = {"run_before": first["run_id"], "missing": "241605.00"}
    assert second["balance"]["between_runs"] == between
    (line,) = [each for each in attention(second) if "241,605" in each]
    assert str(first["run_id"]) in line
    findings = {each.name: each for each in diagnose(world.read_settings()).findings}
    assert findings["wallet"].standing == WARNING
    journal = request.getfixturevalue("journal")
    (gap,) = open_gaps(journal)
    assert (gap.key, gap.micro) == (second["run_id"], 241_605 * NAIRA)


def test_a_reason_ends_it(world: World, request: pytest.FixtureRequest) -> None:
    """A reason is needed, is noted once, and then nothing is open; a resume keeps it."""
    _, second = two_nights(world, taken=100)
    journal, run_id = request.getfixturevalue("journal"), str(second["run_id"])
    ada = Actor("Ada", frozenset({"settle"}))
    with pytest.raises(NotAllowedError):
        explain_gap(journal, Actor("Bem", frozenset()), run_id, "mine")
    with pytest.raises(InputError):
        explain_gap(journal, ada, run_id, " ")
    noted = explain_gap(journal, ada, run_id, "tests of the mobile app")
    assert (noted.state, noted.by) == (EXPLAINED, "Ada")
    with pytest.raises(InputError):
        explain_gap(journal, ada, run_id, "once more")
    assert not open_gaps(journal)
    world.screen(run=run_id)
    assert not open_gaps(journal)
    assert "wallet" not in {each.name for each in diagnose(world.read_settings()).findings}


def test_nothing_is_missing_where_only_runs_spent(
    world: World, request: pytest.FixtureRequest
) -> None:
    """Calls that the journal knows explain what they cost."""
    world.screen(ROWS)
    world.screen([customer(number) for number in range(21, 24)], checks=("karma",))
    report = world.screen(MORE).report
    assert "between_runs" not in report["balance"]
    assert not open_gaps(request.getfixturevalue("journal"))


def test_a_shared_wallet_is_no_warning(world: World, request: pytest.FixtureRequest) -> None:
    """Where others use it too, what leaves between runs is theirs."""
    world.settings["wallet_shared"] = True
    _, second = two_nights(world, taken=500)
    assert "between_runs" not in second["balance"]
    assert not open_gaps(request.getfixturevalue("journal"))
