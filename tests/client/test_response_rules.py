"""The table is the lender's to correct, and its mistakes are told at their place."""

from __future__ import annotations

from pathlib import Path

import pytest

from nightscreen.checks.registry import CHECKS
from nightscreen.client.classify import Classifier
from nightscreen.client.prices import PRICES, load_prices
from nightscreen.client.response_rules import MANNERS, Exchange, load_response_rules
from nightscreen.schemas.checks import Operation, Outcome
from nightscreen.schemas.errors import SettingsError
from tests.client.lookups import bank_account

LAST = '[[rules]]\nname = "rest"\nverdict = "in_doubt"\ntrouble = "unreadable"\n'


def written(folder: Path, text: str) -> Path:
    path = folder / "manners.toml"
    path.write_text(text, "utf-8")
    return path


def test_a_line_added_to_the_table_is_followed(tmp_path: Path) -> None:
    """A miss in another form needs no code."""
    rule = (
        '[[rules]]\nname = "bank says no"\noperations = ["bank_account"]\nstatus = [404]\n'
        'message_matches = ["no such account"]\nverdict = "answered"\noutcome = "not_found"\n'
        'cost_naira = "0"\n'
    )
    path = written(tmp_path, rule + MANNERS.read_text("utf-8"))
    body = b'{"status":"error","message":"There is NO SUCH ACCOUNT"}'
    reading = Classifier(load_response_rules(path)).read(
        bank_account("0123456789", "058"), Exchange(404, body)
    )
    assert (reading.outcome, reading.rule) == (Outcome.NOT_FOUND, "bank says no")


MISTAKES: list[tuple[str, str]] = [
    ("rules = 3", "rules"),
    ("[[rules]", "no TOML"),
    (LAST + "colour = 1\n", r"line \d+: rules.0.colour"),
    (LAST.replace("in_doubt", "doubtful"), "rules.0.verdict"),
    (LAST + "status = [99]\n", "no status code"),
    (LAST + 'status = ["40x"]\n', "no status code"),
    (LAST + 'message_matches = ["("]\n', "no regular expression"),
    (LAST + "status = [404]\n", "the last rule must have no condition"),
    (LAST + LAST, 'two rules are named "rest"'),
    (LAST + 'outcome = "clear"\n', "`outcome` belongs"),
    (LAST + 'stop = "auth"\n', "`stop` and `stop_scope` belong"),
    (LAST.replace("in_doubt", "answered"), "`outcome` belongs"),
]


def test_mistakes_are_told_at_their_place(tmp_path: Path) -> None:
    """One line names the file, the rule and the fault."""
    for text, told in MISTAKES:
        with pytest.raises(SettingsError, match=told) as caught:
            load_response_rules(written(tmp_path, text))
        assert "manners.toml" in str(caught.value), (text, told)
        assert "\n" not in str(caught.value), (text, told)


def test_evidence_needs_a_record(tmp_path: Path) -> None:
    """No rule can make a listing of an answer that holds none."""
    rule = '[[rules]]\nname = "x"\nverdict = "answered"\noutcome = "listed"\n'
    with pytest.raises(SettingsError, match="needs body ="):
        load_response_rules(written(tmp_path, rule + LAST))


def test_prices_are_micro_naira_for_every_operation() -> None:
    """The list starts from what was seen."""
    prices = load_prices()
    assert set(prices) == {*CHECKS, *Operation}
    assert prices["ecosystem"] == 25_000_000
    assert prices[Operation.BVN_START] == 0


PRICE_MISTAKES: list[tuple[str, str]] = [
    ('karma = "10"\n', "naira"),
    ('[naira]\nkarma = "10"\n', "naira: .*bvn_start, bvn_finish.* is missing"),
    (PRICES.read_text("utf-8") + 'ecosystem = "dear"\n', "naira.ecosystem"),
    (
        PRICES.read_text("utf-8") + 'ecosystem = "-1"\n',
        "naira.ecosystem: .*greater than or equal to 0",
    ),
    (PRICES.read_text("utf-8") + 'karmaa = "1"\n', "there is no operation karmaa"),
]


def test_mistakes_in_prices_are_told(tmp_path: Path) -> None:
    """One line names the file and the entry."""
    for text, told in PRICE_MISTAKES:
        with pytest.raises(SettingsError, match=told):
            load_prices(written(tmp_path, text))
