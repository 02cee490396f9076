"""Cash flow in screening: shown where consent is alive, decided on where shown, never missed."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from nightscreen.journal import open_journal
from nightscreen.journal.consents import Consents, keep_figures
from nightscreen.schemas.clock import DAY_MICROS, system_clock
from nightscreen.schemas.consented import CashFigures, TokenAnswer
from nightscreen.schemas.enriched import FEATURES, TX_FIELDS, figures_document
from tests.screening import CONSENT, Night, World, customer, days_ago

LIST = "transaction:list"
TX = [name for name, _ in TX_FIELDS]


def held(
    world: World,
    customer_id: str,
    *,
    age_days: int = 1,
    scopes: tuple[str, ...] = (LIST,),
    **values: Any,  # noqa: ANN401 - any feature
) -> None:
    """Keep figures of a customer who consented, as a pull of some days ago did."""
    some = {
        "tx_as_of": date(2026, 6, 30),
        "tx_months": 6,
        "tx_income_monthly": Decimal("200000.00"),
        "tx_instalment_most": Decimal("50000.00"),
        "tx_salary": True,
        "tx_lenders": 0,
    }
    with open_journal(world.folder / "home") as journal:
        consents = Consents(journal)
        token = TokenAnswer(access_token="t", refresh_token="r", scope=" ".join(scopes))
        grant = consents.keep(customer_id, token, asked_scopes=scopes, evidence={})
        at = system_clock() - age_days * DAY_MICROS
        figures = CashFigures(
            key=grant.customer.hex(),
            customer=grant.customer,
            run_id="pull-1",
            at=at,
            scopes=("transaction:list",),
            figures=figures_document({**dict.fromkeys(FEATURES), **some, **values}),
        )
        keep_figures(journal, [figures])


def revoke(world: World, customer_id: str) -> None:
    with open_journal(world.folder / "home") as journal:
        assert Consents(journal).revoke(customer_id, "taken back")


ASKED = [
    {"requested_amount": "N120,000", "requested_tenor_days": "3 months"},
    {"requested_amount": "500000", "requested_tenor_days": "90"},
    {"requested_instalment": "50,000.00"},
    {"requested_amount": "40000"},
    {"requested_amount": "lots", "requested_tenor_days": "soon"},
]
"""What customers 11 to 15 ask for."""
POLICY = Path(__file__).with_name("cash.toml")
SAID = {
    3: {"consent_withdrawn_at": days_ago(1)},
    4: {**CONSENT, "consent_expires_at": days_ago(1)},
    5: {**CONSENT, "consented_at": "soon"},
}
"""What the lender's own file says of consents of customers who granted one here."""


@pytest.fixture(scope="module")
def night(tmp_path_factory: pytest.TempPathFactory) -> tuple[World, Night]:
    """A night by a policy over figures: of customers 2, 7 and 9 none may be used."""
    world = World(tmp_path_factory.mktemp("night"))
    held(world, "C1", tx_lenders=4)
    for number in (3, 4, 5, 7, *range(11, 16)):
        held(world, f"C{number}")
    held(world, "C6", scopes=("profile:view",))
    held(world, "C8", age_days=30, tx_lenders=1)
    held(world, "C9", age_days=32)
    revoke(world, "C7")
    rows = [customer(number, **SAID.get(number, {})) for number in range(1, 10)]
    rows += [customer(number, **each) for number, each in enumerate(ASKED, start=11)]
    return world, world.screen(rows, checks=["karma"], policy=str(POLICY))


def by_id(night: Night) -> dict[str, dict[str, Any]]:
    return {row["customer_id"]: row for row in night.rows}


def test_figures_stand_beside_the_checks_of_those_who_consent_and_nobody_else(
    night: tuple[World, Night],
) -> None:
    """Neither without a grant, its scope or its age, nor where the lender's own file says no."""
    world, rows = night[0], by_id(night[1])
    shown = {name for name, row in rows.items() if {row[each] for each in TX} != {None}}
    assert shown == {"C1", "C8", *(f"C{number}" for number in range(11, 16))}
    assert rows["C1"]["tx_income_monthly"] == Decimal(200_000)
    assert (rows["C1"]["tx_salary"], rows["C1"]["tx_as_of"]) == (True, date(2026, 6, 30))
    assert rows["C1"]["tx_checked_at"] is not None
    assert rows["C1"]["tx_affordable"] is None
    revoke(world, "C1")
    again = by_id(world.screen([customer(1), customer(8)], checks=["karma"]))
    assert (again["C1"]["tx_months"], again["C8"]["tx_months"]) == (None, 6)


def test_what_is_requested_is_read_and_held_against_the_figures(
    night: tuple[World, Night],
) -> None:
    """Amount and tenor, or an instalment, whatever the headings; unknown where neither is there."""
    rows = by_id(night[1])
    said = [rows[f"C{number}"]["tx_affordable"] for number in range(11, 16)]
    assert said == [True, False, True, None, None]
    assert rows["C11"]["requested_amount"] == Decimal(120_000)
    assert rows["C11"]["requested_tenor_days"] == 90
    problems = (night[1].folder / "problems.csv").read_text()
    assert "requested_amount_unreadable" in problems
    assert "requested_tenor_days_unreadable" in problems


def test_a_policy_may_rest_on_figures_and_absence_is_no_obstacle(
    night: tuple[World, Night],
) -> None:
    """A rule on a figure decides where there is one; who has none is approved as before."""
    rows = [by_id(night[1])[f"C{number}"] for number in (1, 8, 2)]
    assert [row["karma_status"] for row in rows] == ["clear"] * 3
    assert [row["decision"] for row in rows] == ["review", "approve", "approve"]
