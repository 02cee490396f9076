"""Banks and accounts: codes, names, check digits; a near miss is suggested, never applied."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nightscreen.schemas.columns import Flaw
from nightscreen.schemas.errors import SettingsError
from nightscreen.values.banks import (
    agrees,
    bank_table,
    institution_of,
    judge_account,
    judge_accounts,
    judge_banks,
    load_banks,
)
from nightscreen.values.issues import Issues
from tests.screening import csv_rows

HEADER = "name,aliases,code,other_codes,kind,check\n"


def test_codes_and_names_become_the_three_digit_code() -> None:
    """Codes of other schemes, names and aliases are translated without a finding.

    Repairs, doubts and unknown banks are said; an unknown one keeps its text.
    """
    cases = csv_rows(Path(__file__).with_name("bank_cases.csv"))
    assert cases
    for case in cases:
        verdict = bank_table().resolve(case["code"] or None, case["name"] or None)
        found = [issue.code for _, issue in verdict.issues]
        assert (verdict.code or "", found) == (case["becomes"], case["finding"].split()), case


def test_near_miss_is_suggested_only() -> None:
    """A misspelt bank stays unknown, and its hint names the bank that was probably meant."""
    verdict = bank_table().resolve(None, "Zennith Bnk")
    ((column, finding),) = verdict.issues
    assert (column, verdict.bank, finding.flaw) == ("bank_name", None, Flaw.BANK_UNKNOWN)
    assert "Did you mean Zenith Bank?" in finding.hint


def test_every_bank_of_the_file_is_found_by_all_it_is_called() -> None:
    """Each name, alias and code leads to its own bank, and each check digit can be computed."""
    table = bank_table()
    for bank in table.banks:
        assert all(table.by_name(name) is bank for name in (bank.name, *bank.aliases))
        assert all(table.by_code(code) is bank for code in bank.other_codes)
        assert bank.institution or bank.check == "none"
        assert bank.check != "dmb" or bank.institution == institution_of(bank.code or "")


MISTAKEN = (
    "bank,code\n",
    f"{HEADER}One Bank,,044,,bank,dmb\nTwo Bank,,044,,bank,dmb\n",
    f"{HEADER}One Bank,,044,,bank,dmb\nONE BANK PLC,,045,,bank,dmb\n",
    f"{HEADER}One Bank,,44,,bank,dmb\n",
    f"{HEADER}One Bank,,044,,bank,sometimes\n",
    f"{HEADER},,044,,bank,dmb\n",
    f"{HEADER}One Bank,,044,14A,bank,dmb\n",
)


def test_a_file_of_the_lenders_own_is_read_or_refused_by_name(tmp_path: Path) -> None:
    """Neither a missing list nor one with other columns is read as an empty one.

    A lender may write a note without a blank after its `#`, and leave lines empty.
    """
    path = tmp_path / "banks.csv"
    with pytest.raises(SettingsError):
        load_banks(path)
    for mistaken in MISTAKEN:
        path.write_text(mistaken, encoding="utf-8")
        with pytest.raises(SettingsError, match=r"banks\.csv"):
            pytest.fail(f"{mistaken} was taken: {load_banks(path)}")
    rows = "\n  \nOne Bank,,044,,bank,dmb\n\n#Two Bank,,045,,bank,dmb\n"
    path.write_text(f"#our banks\n\n{HEADER}{rows}", encoding="utf-8")
    assert [bank.name for bank in load_banks(path).banks] == ["One Bank"]


GTB = institution_of("058")


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
    serial = "0" * zeros + "9" * (9 - zeros)
    whole = next(number for digit in range(10) if agrees(GTB, number := f"{serial}{digit}"))
    verdict = judge_account(whole[zeros:], GTB)
    assert (verdict.value, [f.code for f in verdict.issues]) == (whole, ["account_padded"])


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
    together = take(*rows)
    alone = [take(row) for row in rows]
    assert together[0] == [codes[0] for codes, _, _ in alone]
    assert together[1] == [accounts[0] for _, accounts, _ in alone]
    assert together[2].flaws.tolist() == [int(notes.flaws[0]) for _, _, notes in alone]
