"""An answer held against a row: what agrees, what contradicts, and what cannot be told."""

from __future__ import annotations

from nightscreen.checks.bank_account import BankAccountAnswer, bvn_agrees, judge_account

OURS = "22123456789"
ROW = {"flaws": 0, "first_name": None, "middle_name": None, "last_name": None, "full_name": None}


AGREES: dict[str | None, bool | None] = {
    "22123456789": True,
    "22123456788": False,
    "22000000089": True,
    "22000000088": False,
    "23000000089": False,
    "22*******89": True,
    "22*****6789": True,
    "22*****6780": False,
    "***********": None,
    "2212345678": None,
    "": None,
    None: None,
}


def test_bvns_are_compared_on_the_digits_shown() -> None:
    """Zeros in the middle and asterisks hide digits; what is hidden agrees with anything."""
    for theirs, agrees in AGREES.items():
        assert bvn_agrees(OURS, theirs) is agrees, theirs


def test_a_masked_bvn_decides_where_no_name_is_known() -> None:
    """With nothing else to compare the digits shown verify the account or contradict it."""
    judged = {"22000000089": "verified", "22000000088": "mismatch", None: "unconfirmed"}
    for bvn, status in judged.items():
        answer = BankAccountAnswer(bank_code="058", account_number="0123456789", bvn=bvn)
        assert judge_account({**ROW, "bvn": OURS}, answer).status == status


def test_a_name_that_is_only_likely_the_same_verifies_nothing_alone() -> None:
    """A father, a brother or a changed surname stays unconfirmed until the account's BVN agrees."""
    row = {**ROW, "first_name": "CHINEDU", "middle_name": "EMEKA", "last_name": "OKAFOR JNR"}
    for account_name, bvn, status in (
        ("OKAFOR CHINEDU EMEKA", None, "verified"),
        ("EMEKA OKAFOR", None, "unconfirmed"),
        ("OBINNA EMEKA OKAFOR", None, "unconfirmed"),
        ("CHINEDU EMEKA BELLO", None, "unconfirmed"),
        ("CHINEDU EMEKA BELLO", "22000000089", "verified"),
        ("CHINEDU EMEKA OKAFOR SNR", None, "mismatch"),
        ("SADIQ BELLO", None, "mismatch"),
    ):
        place = {"bank_code": "058", "account_number": "0123456789"}
        answer = BankAccountAnswer(**place, bvn=bvn, account_name=account_name)
        assert judge_account({**row, "bvn": OURS}, answer).status == status, account_name
