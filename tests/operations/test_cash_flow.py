"""Cash flow: what a statement says of income, loans, balances, and what it must not say."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pytest

from benchmarks.quality import compared, made
from nightscreen.operations.cashflow import (
    DEFINITIONS,
    NARRATIONS,
    CashFlow,
    Narrations,
)
from nightscreen.schemas.errors import SettingsError
from nightscreen.schemas.shipped import read_model
from tests.operations.cash_flow_in_a_test import (
    alive,
    cash_flow,
    each_month,
    figures,
    item,
    matches,
)

SALARY = 200_000


@pytest.fixture(scope="module")
def lender(tmp_path_factory: pytest.TempPathFactory) -> CashFlow:
    return cash_flow(tmp_path_factory.mktemp("home"))


SALARIES = (
    *("ACME NOV SALARY", "NIP/GTB/ACME LTD/SALRY", "NIP CR/ACME LTD/"),
    *("TRF FROM ACME NIGERIA LTD", "REMITA/ACME/000112233"),
)


def test_a_salary_is_found_with_and_without_the_word(lender: CashFlow) -> None:
    """Six months from one source in one amount are a salary, whatever the narration calls it.

    Paid on the last working day, on the first of the next or before a feast it is one a month; what
    paid nothing for longer than 45 days has ended, and two covered months carry no income.
    """
    days = ["2026-01-30", "2026-03-01", "2026-03-31", "2026-04-30", "2026-06-01", "2026-06-18"]
    *rows, sliding, ended, short = figures(
        lender,
        *(alive() + each_month(28, SALARY, each) for each in SALARIES),
        alive() + [item(day, SALARY, "ACME LTD") for day in days],
        alive() + each_month(28, SALARY, "ACME SALARY", months=range(1, 5)),
        alive((5, 6)) + each_month(28, SALARY, "ACME LTD", months=(5, 6)),
    )
    for narration, row in zip(SALARIES, rows, strict=True):
        assert row["tx_salary"] is True, narration
        assert (row["tx_salary_day"], row["tx_income_sources"], row["tx_months"]) == (28, 1, 6)
        assert row["tx_income_monthly"] == row["tx_salary_monthly"] == Decimal(SALARY)
        assert row["tx_salary_last"] == date(2026, 6, 28)
    assert (sliding["tx_salary"], sliding["tx_salary_months"]) == (True, 6)
    assert sliding["tx_income_low"] == Decimal(SALARY)
    assert (ended["tx_salary"], ended["tx_salary_last"]) == (False, None)
    assert short["tx_months"] == 2
    assert (short["tx_income_monthly"], short["tx_instalment_most"]) == (None, None)


def test_a_loan_is_no_income_and_its_repayment_is_seen(lender: CashFlow) -> None:
    loans = [
        item("2026-05-03", 300_000, "LOAN DISBURSEMENT"),
        item("2026-06-03", 80_000, "PALMCREDIT"),
    ]
    repaid = each_month(8, -30_000, "LOAN RPMT OKASH 9912", months=(4, 5, 6))
    repaid += each_month(9, -15_000, "NIBSS DD RENMONEY 8821", months=(4, 5, 6))
    (row,) = figures(lender, alive() + each_month(28, SALARY, "ACME SALARY") + loans + repaid)
    assert row["tx_inflow_monthly"] == row["tx_income_monthly"] == Decimal(SALARY)
    assert (row["tx_loans_received"], row["tx_loans_received_naira"]) == (2, Decimal(380_000))
    assert (row["tx_repayments"], row["tx_lenders"]) == (6, 2)
    assert row["tx_repayments_monthly"] == Decimal(45_000)
    assert row["tx_repayments_share"] == pytest.approx(0.225)
    assert row["tx_instalment_most"] == Decimal("21666.67")


def test_what_cancels_out_counts_on_neither_side(lender: CashFlow) -> None:
    """An item and its reversal count on neither side, a title that reads alike counts.

    One reference twice is one payment, two of their own references are two. Of two equal payments a
    credit on another own account pairs with the nearer alone.
    """
    items = alive() + each_month(28, SALARY, "ACME SALARY", reference=None)
    back = [
        item("2026-06-10", -90_000, "WEB PYMT SHOP 1"),
        item("2026-06-11", 90_000, "RVSL WEB PYMT SHOP 1"),
        item("2026-06-12", -90_000, "WEB PYMT SHOP 2"),
        item("2026-06-13", 90_000, "REV WEB PYMT SHOP 2"),
    ]
    title = item("2026-06-14", 7_000, "NIP/GTB/REV JOHN OKORO/BOOKS")
    same = item("2026-06-20", -40_000, "POS PURCHASE FUEL", reference="000991122")
    other = {"account_number": "0200000022"}
    moved = [
        item("2026-06-10", -70_000, "TRF A"),
        item("2026-06-11", -70_000, "TRF B"),
        item("2026-06-11", 70_000, "TRF C", **other),
    ]
    third = item("2026-06-12", 70_000, "TRF D", **other)
    more = (back, [title], [same, dict(same)], [same, {**same, "reference": "000991133"}])
    before, after, titled, once, twice, one, both = figures(
        lender, items, *(items + each for each in (*more, moved, [*moved, third]))
    )
    assert after["tx_reversed"] == 2
    for name in ("tx_inflow_monthly", "tx_outflow_monthly", "tx_net_30d", "tx_income_monthly"):
        assert after[name] == before[name]
    assert (titled["tx_reversed"], titled["tx_net_30d"]) == (0, before["tx_net_30d"] + 7_000)
    assert once["tx_net_30d"] - twice["tx_net_30d"] == Decimal(40_000)
    assert one["tx_net_30d"] == before["tx_net_30d"] - 70_000
    assert both["tx_net_30d"] == before["tx_net_30d"]
    assert one["tx_inflow_30d"] == both["tx_inflow_30d"] == before["tx_inflow_30d"]


def test_own_transfers_are_left_out_of_both_sides(lender: CashFlow) -> None:
    """Between own accounts, to oneself by name or number, into savings: not spent, not earned."""
    items = alive() + each_month(28, SALARY, "ACME SALARY")
    moved = each_month(5, -50_000, "MOBILE TRF TO ADA OKORO")
    moved += each_month(5, 50_000, "MOBILE TRF FROM ADA", account_number="0200000022")
    moved += each_month(7, -20_000, "TRANSFER TO OKORO ADA NGOZI")
    moved += each_month(9, -10_000, "NIP/KUDA/0300000033")
    moved += each_month(11, -15_000, "COWRYWISE PLAN")
    own = [
        {
            "account_number": number,
            "account_name": "ADA NGOZI OKORO",
            "balance": Decimal(1),
        }
        for number in ("0100000011", "0200000022", "0300000033")
    ]
    elsewhere = each_month(7, -20_000, "TRF TO ADA OKORO IFO MUSA BELLO")
    (before,) = figures(lender, items)
    after, other = figures(lender, items + moved, items + elsewhere, accounts=own)
    for name in ("tx_inflow_monthly", "tx_outflow_monthly", "tx_income_monthly", "tx_salary"):
        assert after[name] == before[name]
    assert after["tx_balance_current"] == Decimal(3)
    assert other["tx_outflow_monthly"] == before["tx_outflow_monthly"] + 20_000


CUSTOMERS = ("ABU", "BISI", "CHIKA", "DAYO", "EFE", "FEMI", "GOZIE", "HAUWA", "IFE", "JOKE")


def test_what_is_earned_and_what_is_not(lender: CashFlow) -> None:
    """One large gift changes neither income nor salary; what a betting house pays is not earned.

    Ten customers a month who never come twice are a trade. Weekly payouts that differ are a source
    and no salary; equal wages each week are one.
    """
    gift = item("2026-04-20", 5_000_000, "NIP/UBA/CHIDI OBI/WEDDING GIFT")
    bets = each_month(4, -25_000, "BET9JA 11223") + each_month(26, 90_000, "SPORTYBET PAYOUT")
    sales = [
        entry
        for number, name in enumerate(CUSTOMERS)
        for month in range(1, 7)
        for entry in each_month(
            number + 3, 9_000, f"TRF FROM {name}{'XYZWVU'[month - 1]} M", months=(month,)
        )
    ]
    weekly = {3: 25_000, 10: 45_000, 17: 60_000, 24: 70_000}
    uneven = [e for day, naira in weekly.items() for e in each_month(day, naira, "RIDEWAY PAYOUT")]
    wages = [e for day in weekly for e in each_month(day, 40_000, "KOLA FARMS WAGES")]
    given = ([*each_month(28, SALARY, "ACME SALARY"), gift], [gift], bets, sales, uneven, wages)
    paid, alone, gambler, trader, platform, farm = figures(
        lender, *(alive() + each for each in given)
    )
    assert (paid["tx_income_monthly"], paid["tx_income_sources"]) == (Decimal(SALARY), 1)
    for row in (alone, gambler):
        assert (row["tx_salary"], row["tx_income_monthly"]) == (False, Decimal(0))
    assert gambler["tx_inflow_monthly"] == Decimal(90_000)
    assert gambler["tx_betting_share"] == pytest.approx(25_000 / 26_500)
    for row, naira in ((trader, 90_000), (platform, 200_000)):
        assert (row["tx_salary"], row["tx_income_monthly"]) == (False, Decimal(naira))
        assert row["tx_income_sources"] == 1
    assert (farm["tx_salary"], farm["tx_salary_day"]) == (True, None)


def test_balances_are_of_the_end_of_the_day_and_of_all_accounts(lender: CashFlow) -> None:
    """Days go on with the last balance; two accounts add up; low days are counted.

    Days are those of Lagos: half past eleven at night in UTC is the next. A month without
    transactions lowers no median; it is counted.
    """
    items = [
        item("2026-06-01", -10, "POS A", balance=Decimal(5_000)),
        item("2026-06-11", -10, "POS B", balance=Decimal(900)),
        item("2026-06-21", -10, "POS C", balance=Decimal(-50)),
        item("2026-06-26", 10, "TRF D", balance=Decimal(700), account_number="0200000022"),
        item("2026-06-30", -10, "POS E", balance=Decimal(2_000)),
    ]
    late = item("2026-06-30", -10, "POS A", balance=Decimal(5))
    late["transaction_date"] = datetime(2026, 6, 30, 23, 30, tzinfo=UTC)
    months = (1, 2, 3, 5, 6)
    gap = alive(months) + each_month(28, SALARY, "ACME SALARY", months=months)
    row, night, gapped = figures(lender, items, [late], gap)
    assert row["tx_balance_min"] == Decimal(-50)
    assert (row["tx_days_below_1000"], row["tx_days_below_zero"]) == (19, 5)
    assert (row["tx_balance_current"], row["tx_balance_median"]) == (Decimal(2_700), Decimal(900))
    assert row["tx_accounts"] == ["******0011", "******0022"]
    assert night["tx_as_of"] == date(2026, 7, 1)
    assert (gapped["tx_months"], gapped["tx_months_missing"]) == (5, 1)
    assert gapped["tx_month_names"] == ["2026-01", "2026-02", "2026-03", "2026-05", "2026-06"]
    assert (gapped["tx_income_low"], gapped["tx_salary"]) == (Decimal(SALARY), True)


def test_nothing_after_the_answer_and_nothing_unsettled_counts(lender: CashFlow) -> None:
    """What is dated later, pending, failed, deleted or of another currency changes no figure."""
    items = alive() + each_month(28, SALARY, "ACME SALARY")
    others = [
        item("2026-07-03", 1_000_000, "ACME SALARY"),
        item("2026-06-20", 1_000_000, "ACME SALARY", status="pending"),
        item("2026-06-20", -1_000_000, "POS", status="Failed"),
        item("2026-06-20", -1_000_000, "POS", currency="USD"),
        item("2026-06-20", -1_000_000, "POS", deleted_on=datetime(2026, 6, 21, tzinfo=UTC)),
    ]
    before, after = figures(lender, items, items + others)
    assert after == before


CREDITS = {
    "": ("NIP/UBA/SALISU BELLO/RENT", "TRF FROM MAY OKAFOR MARCH"),
    "refund": ("LOAN REPAYMENT FROM JOHN",),
    "loan_received": ("SALARY ADVANCE",),
}
DEBITS = {
    "": (
        *("NIP/LAPO MFB/ADE OLA/UPKEEP", "NIP/UNION BANK/ADE OLA", "PAYMENT OF SALARY TO STAFF"),
        *("CITY CLINIC BILL PAYMENT", "GENERAL HOSPITAL CHARGES", "APC WARD LEVY"),
        *("NLC UNION DUES LEVY", "PARISH HALL RENT", "LUNCH WITH LOAN OFFICER"),
    ),
    "loan_repayment": ("MATURED LOAN INSTALLMENT",),
    "cash": ("POS WDL AGENT KIOSK",),
    "airtime": ("Airtime//08031234567//MTN",),
    "returned": ("CHQ RTD 000123",),
    "charge": ("ELECTRONIC MONEY TRANSFER LEVY",),
    "contribution": ("AJO WEEK 3",),
    "utilities": ("IKEDC PREPAID 123", "LIGHT BILL JUNE"),
}


@pytest.mark.parametrize(("sign", "narrations"), [(1, CREDITS), (-1, DEBITS)])
def test_narrations_and_their_traps(
    lender: CashFlow, sign: int, narrations: dict[str, tuple[str, ...]]
) -> None:
    """Whole words decide, by direction: a name, a month or a bank is no salary and no lender.

    An everyday word such as BILL makes no category of what was paid to a clinic or a party.
    """
    expected = {each: word for word, those in narrations.items() for each in those}
    # of sums of different powers of two it is known what was added
    items = [
        item("2026-06-01", sign * 2**place, narration) for place, narration in enumerate(expected)
    ]
    taken: dict[str, list[str]] = {}
    for found in matches(lender, items):
        naira = int(Decimal(found["naira"]))
        for place, narration in enumerate(expected):
            if naira & 2**place:
                taken.setdefault(narration, []).append(found["category"] or "")
    assert taken == {narration: [word] for narration, word in expected.items()}


def test_no_rule_may_rest_on_giving_health_unions_or_parties(tmp_path: Path) -> None:
    own = tmp_path / "narrations.toml"
    for word in ("TITHE", "CITY CLINIC", "UNION DUES", "APC", "masjid", "Hospital*"):
        rule = (
            f'[[rule]]\nname = "mine"\ncategory = "mine"\ndirection = "any"\nwords = ["{word}"]\n'
        )
        own.write_text(f"{NARRATIONS.read_text('utf-8')}\n{rule}", "utf-8")
        with pytest.raises(SettingsError, match="no ground for a figure"):
            pytest.fail(f"{word} was taken: {read_model(own, Narrations)}")


def test_made_up_lives_are_told_apart(lender: CashFlow) -> None:
    """Salary, income and repayments of lives made elsewhere; far better than the largest credit."""
    found = compared(made(40), lender)
    ours, plain = found["cash flow"], found["naive rule"]
    assert min(ours.values()) >= 0.9
    assert ours["income within 10 %"] > 2 * plain["income within 10 %"]
    assert ours["salary precision"] > plain["salary precision"]


REACHING = {
    "CREATE TABLE theft AS SELECT * FROM read_csv('/etc/passwd');": "disabled by configuration",
    "COPY transactions TO '/tmp/out.csv';": "only CREATE",
    "ATTACH 'other.db';": "only CREATE",
    "SET lock_configuration = false;": "only CREATE",
    "CREATE VIEW tx_of_mine AS SELECT customer_id, 1 FROM customers;": "is no feature",
    "CREATE VIEW mine AS SELECT narration FROM transactions;": "narration",
    "CREATE VIEW;": "syntax error",
}
"""What is put before the definitions, and why it is refused."""
MONTHLY = "SELECT customer_id, median(inflow) FROM monthly GROUP BY customer_id;"


def test_a_lender_corrects_a_definition_that_reaches_nothing_else(tmp_path: Path) -> None:
    """A file under HOME replaces the package's: no file, no setting, no text of a narration.

    The error names the file; one customer has one row.
    """
    own, text = tmp_path / "features.sql", DEFINITIONS.read_text("utf-8")
    own.write_text(text.replace(MONTHLY, MONTHLY.replace("median", "max")), "utf-8")
    items = [*alive(), item("2026-05-05", 70000, "CASH DEPOSIT")]
    (row,) = figures(cash_flow(tmp_path), items)
    assert row["tx_inflow_monthly"] == Decimal(70_000)
    for statement, why in REACHING.items():
        own.write_text(statement + text, "utf-8")
        with pytest.raises(SettingsError, match=f"features.sql.*{why}"):
            pytest.fail(f"{statement} was taken: {cash_flow(tmp_path)}")
    own.write_text(text.replace(MONTHLY, "SELECT customer_id, inflow FROM monthly;"), "utf-8")
    with pytest.raises(SettingsError, match="tx_inflow_monthly gives a customer several rows"):
        figures(cash_flow(tmp_path), alive())
