"""`inspect`: what is understood and what is wrong, without a single value of a row."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Here
from tests.screening import consented_on

TABLE = """Customer ID;Surname;BVN;Acct No;Bank;GSM;Consent Ref;Consent Date;cost
C1;Adebayo;22212345678;0123456789;Access Bank;08031234567;R1;2024-01-02;5
C2;Okonkwo;2221234;0123456789;Access Bank;;;;5
C3;Nwachukwu
C4;Danjuma;NIL;;;;;;
C5;Balogun;22212345679;;;;R5;2020-01-02;
"""
VALUES = ("Adebayo", "Okonkwo", "Nwachukwu", "Danjuma", "Balogun", "2221", "0803", "R1", "C4")


def test_a_file_is_understood_without_a_value_of_a_row(here: Here, folder: Path) -> None:
    """Read is screened and refused; words for nothing fill no cell; each check has its rows.

    An analyst sees headings, meanings, findings and counts; a value among headings is private.
    A script learns from the exit status that nothing would be screened. What the mapping says is
    shown as understood, its mistakes are errors.
    """
    (folder / "batch.csv").write_text(TABLE, encoding="utf-8")
    found = here("inspect", "batch.csv", "--json").document
    assert found["rows"] == {"read": 5, "screened": 3, "refused": 2}
    columns = {each["heading"]: each for each in found["columns"]}
    assert columns["Acct No"]["meaning"] == "account_number"
    assert columns["BVN"]["filled_pct"] == 75.0
    assert columns["cost"]["meaning"] is None
    assert columns["cost"]["output"] == "input_cost"
    ecosystem = found["checks"]["ecosystem"]
    assert list(found["checks"]) == ["bank_account", "karma", "ecosystem", "selfie"]
    assert [ecosystem[why] for why in ("eligible", "invalid", "refused")] == [0, 1, 2]
    assert found["checks"]["karma"]["eligible"] == 2
    assert found["checks"]["selfie"]["ineligible"] == 3
    assert found["karma_identities"]["phone"]["eligible"] == 1
    for counts in found["checks"].values():
        assert sum(counts.values()) == found["rows"]["screened"]
    problems = {each["code"]: each for each in found["problems"]}
    assert (problems["broken"]["line"], problems["broken"]["count"]) == (4, 1)
    assert problems["no_identifier"]["line"] == 5
    page = here("inspect", "batch.csv").out
    assert "5 rows: 3 would be screened, 2 refused" in page
    assert "Columns are separated by semicolons." in page
    assert "carried as input_cost" in page
    assert not any(value in page for value in VALUES)
    other, mapping = folder / "other.csv", folder / "acme.toml"
    other.write_text("customer_id,bvn,08031234567\nC1,22212345678,x\n", encoding="utf-8")
    for more in ((), ("--json",)):
        page = here("inspect", "other.csv", *more).out
        assert ("0803" in page, "heading not shown" in page) == (False, True)
    other.write_text("customer_id,bvn\nC1,NIL\nC2,\n", encoding="utf-8")
    nothing = here("inspect", "other.csv", "--json")
    assert nothing.status == 2
    assert nothing.document["rows"] == {"read": 2, "screened": 0, "refused": 2}
    with_mapping = ("inspect", "batch.csv", "--mapping", "acme.toml")
    mapping.write_text('[columns]\nexposure = "cost"\n', encoding="utf-8")
    assert "exposure" in here(*with_mapping).out
    mapping.write_text('[columns]\nexposur = "cost"\n', encoding="utf-8")
    assert 'did you mean "exposure"' in here(*with_mapping).err
    missing = here("inspect", "none.csv")
    assert (missing.status, "no such file" in missing.err) == (2, True)


BOOK = """IPPIS No,BVN,Loan ID,Loan Status,Total Due,Balance
S1,22212345678,L1,Running,100,9
S1,22212345678,L2,Settled,200,9
S2,22212345679,L3,Running,300,9
S2,22212345679,L4,Running,400,9
"""


def test_a_file_of_a_row_a_loan_is_proposed_to_be_merged(here: Here, folder: Path) -> None:
    """The first finding says what to type; then each customer counts once for every check."""
    (folder / "book.csv").write_text(BOOK, encoding="utf-8")
    plain = here("inspect", "book.csv", "--json").document
    assert plain["findings"][0].startswith("50 % of the rows repeat a customer_id")
    assert "--merge-rows" in plain["findings"][0]
    assert {each["heading"]: each["meaning"] for each in plain["columns"]} == {
        "IPPIS No": "customer_id",
        "BVN": "bvn",
        "Loan ID": None,
        "Loan Status": None,
        "Total Due": "exposure",
        "Balance": None,
    }
    merged = here("inspect", "book.csv", "--merge-rows", "--json").document
    assert merged["rows"] == {"read": 4, "screened": 4, "refused": 0, "customers": 2}
    assert merged["checks"]["karma"]["eligible"] == 2
    assert not any("--merge-rows" in finding for finding in merged["findings"])
    page = here("inspect", "book.csv", "--merge-rows").out
    assert "4 would be screened as 2 customers" in page


def test_the_order_of_consent_dates_is_an_option_and_kept_for_the_batch(
    here: Here, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who sits at a terminal is told which to give; without one those consents do not count."""
    open_, _ = consented_on()
    (folder / "book.csv").write_text(
        f"customer_id,bvn,consent_reference,consented_at\nC1,22000000001,R-1,{open_:%d/%m/%Y}\n"
    )
    quote = ("quote", "book.csv", "--json")
    refused = [here(*quote).document["checks"]["ecosystem"]["rows_refused"]]
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    ended = here("inspect", "book.csv", "--json")
    assert ended.document["rows_with_valid_consent"] == 0
    assert f"{open_:%d/%m/%Y}" in ended.err
    assert "--date-order dmy" in ended.err
    given = here("inspect", "book.csv", "--json", "--date-order", "dmy")
    assert (given.document["rows_with_valid_consent"], given.err) == (1, "")
    assert here("inspect", "book.csv", "--date-order", "dym").status == 2
    for more in (("--date-order", "mdy"), ()):
        counts = here(*quote, *more).document["checks"]["ecosystem"]
        refused.append(counts["rows_refused"])
    assert refused == [1, 0, 0]
