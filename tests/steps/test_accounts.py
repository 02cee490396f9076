"""Account numbers and their banks: padding, check digits, and codes that could be two banks."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nightscreen.schemas.columns import Flaw
from nightscreen.values.banks import (
    check_digit,
    institution_of,
    judge_account,
    judge_accounts,
    judge_banks,
)
from nightscreen.values.issues import Issues

GTB = institution_of("058")


def account(serial: str, code: str = "058") -> str:
    """Return an account number whose check digit agrees with a bank."""
    return serial + str(check_digit(institution_of(code), serial))


def take(
    *rows: tuple[str | None, str | None, str | None],
) -> tuple[list[str | None], list[str | None], Issues]:
    """Judge rows of bank code, bank name and account number."""
    codes, names, accounts = (pa.array([row[i] for row in rows], pa.string()) for i in range(3))
    notes = Issues.blank(range(2, 2 + len(rows)))
    judged, banks = judge_banks(codes, names, notes)
    return judged.to_pylist(), judge_accounts(accounts, banks, notes).to_pylist(), notes


@pytest.mark.parametrize("zeros", [1, 2, 3])
def test_lost_zeros_are_put_back_where_the_check_digit_agrees(zeros: int) -> None:
    """A spreadsheet drops leading zeros; the bank's check digit vouches for them."""
    whole = account("0" * zeros + "9" * (9 - zeros))
    verdict = judge_account(whole[zeros:], GTB)
    assert (verdict.value, [f.code for f in verdict.issues]) == (whole, ["account_padded"])


def test_a_failing_check_digit_is_a_warning_only() -> None:
    """The row stays as it is: one of bank and account may be wrong, and the service will say."""
    good = account("123456789")
    bad = good[:-1] + str((int(good[-1]) + 1) % 10)
    _, accounts, notes = take(("058", None, good), ("058", None, bad), (None, "OPay", bad))
    assert accounts == [good, bad, bad]
    assert [(p.line, p.code) for p in notes.problems] == [
        (4, "bank_not_served"),
        (3, "account_check_digit"),
    ]
    assert notes.flaws.tolist() == [0, 0, int(Flaw.BANK_UNKNOWN)]


def test_a_code_that_could_be_two_banks_is_no_bank() -> None:
    """11 is First Bank's 011, or 000011 of Unity Bank: write it in full, or name the bank."""
    codes, _, notes = take(("11", None, None), ("11", "First Bank", None))
    assert codes == ["11", "011"]
    assert [p.code for p in notes.problems] == ["bank_code_ambiguous", "bank_code_repaired"]
    assert notes.flaws.tolist() == [int(Flaw.BANK), 0]


cells = st.none() | st.text(max_size=12) | st.from_regex(r"[0-9]{7,11}", fullmatch=True)
banks = st.sampled_from([None, "058", "44", "11", "999", "GTBank", "50211", "100004", "?!"])


@settings(deadline=None)
@given(st.lists(st.tuples(banks, banks, cells), max_size=12))
def test_rows_together_are_judged_as_rows_alone(
    rows: list[tuple[str | None, str | None, str | None]],
) -> None:
    """What a row means does not depend on the rows beside it."""
    together = take(*rows)
    alone = [take(row) for row in rows]
    assert together[0] == [codes[0] for codes, _, _ in alone]
    assert together[1] == [accounts[0] for _, accounts, _ in alone]
    assert together[2].flaws.tolist() == [int(notes.flaws[0]) for _, _, notes in alone]
