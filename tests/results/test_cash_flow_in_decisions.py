"""Cash flow in screening: shown where consent is alive, decided on where shown, never missed."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Any

from nightscreen.journal import open_journal
from nightscreen.journal.consents import Consents, keep_figures
from nightscreen.schemas.clock import DAY_MICROS, system_clock
from nightscreen.schemas.consented import CashFigures, TokenAnswer
from nightscreen.schemas.enriched import FEATURES, TX_FIELDS, figures_document
from tests.screening import CONSENT, World, customer, days_ago

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


def screened(world: World, *rows: dict[str, str], **options: Any) -> dict[str, dict[str, Any]]:  # noqa: ANN401
    night = world.screen(list(rows), checks=["karma"], **options)
    return {row["customer_id"]: row for row in night.rows}


def test_figures_stand_beside_the_checks_of_those_who_consent_and_nobody_else(
    world: World,
) -> None:
    """Neither without a grant, its scope or its age, nor where the lender's own file says no."""
    for number in (1, 3, 4, 5, 7):
        held(world, f"C{number}")
    held(world, "C6", scopes=("profile:view",))
    held(world, "C8", age_days=30)
    held(world, "C9", age_days=32)
    revoke(world, "C7")
    told = {
        3: {"consent_withdrawn_at": days_ago(1)},
        4: {**CONSENT, "consent_expires_at": days_ago(1)},
        5: {**CONSENT, "consented_at": "soon"},
    }
    rows = screened(world, *(customer(n, **told.get(n, {})) for n in range(1, 10)))
    shown = {name for name, row in rows.items() if {row[each] for each in TX} != {None}}
    assert shown == {"C1", "C8"}
    assert rows["C1"]["tx_income_monthly"] == Decimal(200_000)
    assert (rows["C1"]["tx_salary"], rows["C1"]["tx_as_of"]) == (True, date(2026, 6, 30))
    assert rows["C1"]["tx_checked_at"] is not None
    assert rows["C1"]["tx_affordable"] is None
    revoke(world, "C1")
    again = screened(world, customer(1), customer(8))
    assert (again["C1"]["tx_months"], again["C8"]["tx_months"]) == (None, 6)


def test_what_is_requested_is_read_and_held_against_the_figures(world: World) -> None:
    """Amount and tenor, or an instalment, whatever the headings; unknown where neither is there."""
    for number in range(1, 6):
        held(world, f"C{number}")
    asked = [
        {"requested_amount": "N120,000", "requested_tenor_days": "3 months"},
        {"requested_amount": "500000", "requested_tenor_days": "90"},
        {"requested_instalment": "50,000.00"},
        {"requested_amount": "40000"},
        {"requested_amount": "lots", "requested_tenor_days": "soon"},
    ]
    rows = screened(world, *(customer(n, **each) for n, each in enumerate(asked, start=1)))
    said = [rows[f"C{number}"]["tx_affordable"] for number in range(1, 6)]
    assert said == [True, False, True, None, None]
    assert rows["C1"]["requested_amount"] == Decimal(120_000)
    assert rows["C1"]["requested_tenor_days"] == 90
    problems = (next((world.folder / "out").glob("*/problems.csv"))).read_text()
    assert "requested_amount_unreadable" in problems
    assert "requested_tenor_days_unreadable" in problems


def test_a_policy_may_rest_on_figures_and_absence_is_no_obstacle(world: World) -> None:
    """A rule on a figure decides where there is one; who has none is approved as before."""
    policy = world.folder / "policy.toml"
    policy.write_text(
        """
        name = "cash"
        version = "1"
        [[rules]]
        code = "MANY_LENDERS"
        effect = "review"
        when = "tx_lenders >= 3 or requested_amount > 5000000"
        team = "Many lenders."
        customer = "We are looking into it."
        [[rules]]
        code = "APPROVE"
        effect = "approve"
        when = "karma_status = 'clear'"
        team = "Clear."
        customer = "Passed."
        """
    )
    held(world, "C1", tx_lenders=4)
    held(world, "C2", tx_lenders=1)
    rows = screened(world, *(customer(n) for n in (1, 2, 3)), policy=str(policy))
    clear = {name for name, row in rows.items() if row["karma_status"] == "clear"}
    assert {"C1", "C2", "C3"} == clear
    assert [rows[f"C{n}"]["decision"] for n in (1, 2, 3)] == ["review", "approve", "approve"]
