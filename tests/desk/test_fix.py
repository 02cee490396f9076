"""A quarantine at the desk: its cells edited, judged again, kept, quoted and screened again."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from html import unescape
from pathlib import Path
from typing import Any

import httpx
import pytest

from nightscreen.files.sealed_file import unsealed
from nightscreen.journal import open_journal
from nightscreen.journal.erasure import Erasures
from nightscreen.journal.records import Records
from nightscreen.journal.schema import ErasedPseudonyms
from nightscreen.reading.mapping_file import read_mapping
from nightscreen.reading.open_file import open_source
from nightscreen.runs.corrections import keep_to_correct
from nightscreen.schemas.rows import Header
from nightscreen.schemas.uploads import Correction, RowToCorrect
from tests.desk.office import Browser, Office, office_over
from tests.screening import CONSENT, Night, World, customer

CELL = re.compile(r'<input name="c(\d+)\.(\d+)" value="([^"]*)" aria-label="([^"]+), line (\d+)"')
FORM = {"reference": "form 8"}
MAPPING = """drop = ["Secret"]
[columns]
customer_id = ["Ref"]
"""


def extract() -> list[dict[str, str]]:
    """Return a lender's file: five sound customers, two without an id, one repeated."""
    people = [customer(each) for each in range(1, 9)]
    for person in (people[5], people[6]):
        person["customer_id"] = ""
    people[7]["customer_id"] = "C1"
    return [
        {
            "Ref": person.pop("customer_id"),
            **person,
            "Remark": "=2+3" if number == 5 else "two\nlines" if number == 6 else "ok",
            "Secret": "left out",
        }
        for number, person in enumerate(people)
    ]


@pytest.fixture(scope="module")
def refused(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A HOME and an output folder of one night with three rows in quarantine."""
    folder = tmp_path_factory.mktemp("refused")
    (folder / "mapping.toml").write_text(MAPPING)
    night = World(folder).screen(
        extract(), batch="portfolio", mapping=str(folder / "mapping.toml"), checks=["karma"]
    )
    assert night.report["rows"]["quarantined"] == 3
    return folder


@pytest.fixture
def bank(refused: Path, tmp_path: Path) -> Iterator[Office]:
    """A desk over a copy of that night's journal."""
    with office_over(refused, tmp_path) as office:
        yield office


def declining(folder: Path) -> Path:
    """Return a policy that declines whoever has an exposure."""
    file = folder / "strict.toml"
    text = 'name = "strict"\nversion = "1"\n[[rules]]\ncode = "NO"\neffect = "decline"\n'
    file.write_text(text + 'when = "exposure > 0"\nteam = "No."\nshort = "no"\ncustomer = "No."\n')
    return file


def run_of(bank: Office) -> str:
    """Return the address of the quarantine."""
    return f"/runs/{bank.night.run_id}/fix"


def cells(page: str) -> dict[tuple[int, str], tuple[str, str]]:
    """Return name and value of each cell, by place of the row and heading."""
    return {
        (int(row), unescape(heading)): (f"c{row}.{at}", unescape(value))
        for row, at, value, heading, _ in CELL.findall(page)
    }


def typed(
    browser: Browser, at: str, edits: dict[tuple[int, str], str], **more: str
) -> httpx.Response:
    """Send the form as the page has it, with some cells changed."""
    shown = cells(browser.get(at).text)
    fields: dict[str, object] = dict(shown.values())
    fields |= {shown[place][0]: value for place, value in edits.items()}
    return browser.post(at, **fields, **more)


UNSOUND: tuple[tuple[dict[tuple[int, str], str], str], ...] = (
    ({}, "Change a cell first"),
    ({(10, "Remark"): "looked at"}, "was screened in this run"),
    ({(10, "Ref"): "C3"}, "was screened in this run"),
    ({(7, "Ref"): "C6", (8, "Ref"): "C6"}, "An earlier row of the file"),
    ({(7, "Ref"): "C6", (7, "bvn"): "123"}, "BVN"),
    ({(7, "Remark"): "seen"}, "The row has no customer id"),
    ({(7, "Ref"): "C6", (8, "Ref"): "22000000007"}, "customer id"),
    ({(7, "Ref"): "C6", (7, "bvn"): customer(9)["bvn"]}, "bvn: write under Reference"),
)
"""What is typed, and what is still wrong."""


def test_quarantine_is_a_table_with_the_reason_at_each_cell(bank: Office) -> None:
    """Every refused row stands with its line, its cells as they came, and why it was refused.

    Unsound rows start nothing and lose nothing; the quote counts the changed rows alone.
    """
    browser, at = bank.browser("analyst", name="Ada"), run_of(bank)
    page = browser.get(at)
    assert page.status_code == 200, page.text
    assert "<h1>Fix</h1>" in page.text
    found = cells(page.text)
    assert {row for row, _ in found} == {7, 8, 10}
    assert found[7, "Remark"][1] == "=2+3"
    assert found[10, "Ref"][1] == "C1"
    assert (7, "Secret") not in found
    assert page.text.count("The row has no customer id") >= 2
    assert "An earlier row of the file has the same customer id" in page.text
    assert 'aria-describedby="hc7.0"' in page.text
    assert f'href="{at}"' in browser.get(at.removesuffix("/fix")).text
    assert "quarantine seen" in bank.actions()
    for edits, hint in UNSOUND:
        answer = typed(browser, at, edits, do="screen")
        assert (answer.status_code, hint in unescape(answer.text)) == (400, True), hint
        found = cells(answer.text)
        assert {place: found[place][1] for place in edits} == edits
    quoted = typed(browser, at, {(7, "Ref"): "C6"}, do="quote")
    assert (quoted.status_code, "at most ₦10 for 1 row" in quoted.text) == (200, True)
    assert cells(quoted.text)[7, "Ref"][1] == "C6"
    assert typed(browser, at, {(7, "Ref"): "C6"}, do="quote", max_spend="plenty").status_code == 400
    assert bank.starts.started == []
    assert not list((bank.folder / "home" / "desk").glob("*.sealed"))
    identified, _ = UNSOUND[-1]
    assert typed(browser, at, identified, do="screen", **FORM).status_code == 303


def test_fixed_rows_are_screened_again_as_a_part_of_their_batch(
    bank: Office, refused: Path, tmp_path: Path
) -> None:
    """Only changed rows are sent, sealed, under the run's own choices; nobody else is gone.

    Of two presses at once the second finds that its rows were sent already.
    To fix are the rows that nobody has sent again; with none left the front page has no line.
    """
    browser, at = bank.browser("analyst", name="Ada"), run_of(bank)
    edits, both = (
        {(7, "Ref"): "C6", (8, "Ref"): "C7"},
        (browser, Browser(bank, {**browser.cookies})),
    )

    def press(browser: Browser) -> int:
        return typed(browser, at, edits, do="screen", max_spend="1,000").status_code

    with ThreadPoolExecutor(2) as pool:
        assert sorted(pool.map(press, both)) == [303, 400]
    (started,) = bank.starts.started
    assert (started.batch, started.purpose, started.checks) == ("portfolio", "portfolio", ["karma"])
    assert started.max_spend == "1000"
    for file in (bank.folder / "home").rglob("*"):
        assert not file.is_file() or b"22000000006" not in file.read_bytes()
    with unsealed(Path(started.input), bank.journal.sealer) as clear:
        assert open_source(clear, mapping=read_mapping(Path(started.mapping))).header.fed_back
    done = [each for each in bank.actions() if "run" in each or "again" in each]
    assert done == ["run started", "quarantine screened again"]
    page = browser.get(at).text
    assert page.count("screened again</span> by Ada") == 2
    assert {row for row, _ in cells(page)} == {10}
    other = bank.browser("analyst", name="Bem")
    assert typed(other, at, {}, do="screen").status_code == 400
    assert "<b>1 row to fix</b> in portfolio" in browser.get("/").text
    assert browser.post(at, dismiss="10").status_code == 303
    assert "to fix</b>" not in browser.get("/").text
    bank.journal.close()
    again = World(tmp_path).screen(**started.model_dump(include=started.model_fields_set))
    assert again.report["rows"] == {"read": 2, "screened": 2, "quarantined": 0}
    assert [row["customer_id"] for row in again.rows] == ["C6", "C7"]
    assert [row["Remark"] for row in again.rows] == ["=2+3", "two\nlines"]
    assert again.report["changes"].get("gone", 0) == 0


def test_rows_of_a_declined_customer_are_not_turned_round_by_one(
    bank: Office, tmp_path: Path
) -> None:
    """Other data may turn the decline into approve: above the limit that takes two people."""
    bank.context.settings = bank.settings.model_copy(update={"override_above": 1})
    bad = {**customer(7), "bvn": "22000000033"}
    night = World(bank.folder).screen([bad], batch="portfolio", policy=str(declining(tmp_path)))
    assert night.column("decision") == ["decline"]
    at = next(
        f"/runs/{run.run_id}/fix"
        for run in bank.journal.runs.newest(limit=9)
        if run.run_id != night.report["run_id"]
    )
    ada = bank.browser("analyst", name="Ada")
    refused = typed(ada, at, {(7, "Ref"): "C6", (8, "Ref"): " C7 "}, do="screen")
    assert refused.status_code == 400
    assert "line 8: This customer was declined" in unescape(refused.text)
    assert "line 7" not in unescape(refused.text).partition("nothing was started")[2][:300]
    assert bank.starts.started == []
    assert typed(ada, at, {(7, "Ref"): "C6"}, do="screen").status_code == 303
    assert len(bank.starts.started) == 1, "C6 was not declined"


# --- values of screened rows that were not understood ---


def half_read() -> list[dict[str, str]]:
    """Return a file whose rows are taken: two BVNs, a consent's day and two banks say nothing.

    Its first column would be the customer id if the file had none.
    """
    people = [{"Staff No": f"S{each}", **customer(each, **CONSENT)} for each in range(1, 7)]
    people[0]["bvn"] = "2200000000I"
    people[1]["bvn"] = "2200"
    people[2]["consented_at"] = "31/31/2026"
    for person in people[3:5]:
        person["bank_code"] = "Bank of Nowhere"
    return people


@pytest.fixture(scope="module")
def taken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A HOME and an output folder of that file's night."""
    folder = tmp_path_factory.mktemp("taken")
    World(folder).screen(half_read(), batch="portfolio", checks=["karma", "bank_account"])
    return folder


@pytest.fixture
def half(taken: Path, tmp_path: Path) -> Iterator[Office]:
    """A desk over a night in which five of six rows have a value that was not understood."""
    with office_over(taken, tmp_path) as office:
        yield office


def to_correct(office: Office) -> str:
    """Return the address of the rows to correct."""
    return f"{run_of(office)}?list=values"


def screened(office: Office, rows: list[dict[str, str]] | None = None, **options: Any) -> Night:  # noqa: ANN401 - parameters of a run
    """Screen a file, or what the desk has started, while the desk is closed.

    It is a second later at least: the ids of two runs of one second have no order.
    """
    office.journal.close()
    office.clock.forward(seconds=1)
    return World(office.folder, clock=office.clock).screen(rows, **options)


def test_values_not_understood_are_corrected_and_only_what_changes_is_asked(half: Office) -> None:
    """Two cells of two rows: their checks alone are asked, all else is reused, no row is new."""
    browser, at = half.browser("analyst", name="Ada"), to_correct(half)
    assert "5 rows with values to correct" in browser.get("/").text
    page = browser.get(at).text
    assert {place for place, _ in cells(page)} == set(range(2, 7))
    assert page.count('aria-invalid="true"') == 5
    edits = {(2, "bvn"): customer(1)["bvn"], (4, "consented_at"): CONSENT["consented_at"]}
    assert "write under Reference" in typed(browser, at, edits, do="screen").text
    named = {"do": "quote", "reference": "Visit 12, form 8"}
    assert "Expected <b>₦" in typed(browser, at, edits, **named).text
    assert not half.starts.started
    sent = typed(browser, at, edits, do="screen", reference="Visit 12, form 8")
    assert sent.status_code == 303, sent.text
    assert {place for place, _ in cells(browser.get(at).text)} == {3, 5, 6}
    assert "3 rows with values to correct" in browser.get("/").text
    (started,) = half.starts.started
    night = screened(half, **started.model_dump(include=started.model_fields_set))
    assert night.column("karma_status")[0] in {"clear", "listed"}
    paid = {name: each["paid"] for name, each in night.report["checks"].items()}
    assert paid["karma"] + night.report["checks"]["karma"]["free"] == 1
    assert (paid["bank_account"], night.report["changes"].get("gone", 0)) == (0, 0)


def test_a_correction_holds_while_the_source_says_the_same(half: Office) -> None:
    """Also after its file is gone; another text in the source is news, and is read as it is.

    A night that comes next takes the rows of the one before, and none where it is older.
    """
    browser, at = half.browser("analyst", name="Ada"), to_correct(half)
    first = half.night.run_id
    good = customer(1)["bvn"]
    typed(browser, at, {(2, "bvn"): good, (3, "bvn"): customer(2)["bvn"]}, do="screen", **FORM)
    later = half_read()
    later[1]["bvn"] = "2200X"
    night = screened(half, later, batch="portfolio", checks=["karma"])
    assert night.column("bvn")[:2] == [good, "2200X"]
    assert night.column("karma_status")[1] == "invalid"
    codes = (night.folder / "problems.csv").read_text()
    assert codes.count(",corrected,") == 1
    with open_journal(half.folder / "home") as journal:
        kept = Records(journal, Correction)
        assert {(each.customer_id, each.reference, each.by) for each in kept.all()} == {
            ("C1", "form 8", "Ada"),
            ("C2", "form 8", "Ada"),
        }
        rows = Records(journal, RowToCorrect)
        assert {each.run_id for each in rows.all()} == {night.report["run_id"]}
        keep_to_correct(journal, first, "portfolio", Header(()), [])
        assert [each.line for each in rows.all()] == [3, 4, 5, 6]
        gone = journal.pseudonyms.customer("portfolio", "C2")
        Erasures(journal).erase(ErasedPseudonyms(customers=[gone]))
        assert [each.customer_id for each in kept.all()] == ["C1"]
        assert [each.line for each in rows.all()] == [4, 5, 6]
    with Office(half.folder) as office:
        answer = office.browser("analyst", name="Bem").get(at)
        assert answer.status_code == 404, "the night after took the first one's rows"


def test_one_rule_corrects_every_row_with_the_same_text(half: Office) -> None:
    """A bank's name in two rows; a text that no row has, or what is not sound, starts nothing."""
    browser, at = half.browser("analyst", name="Ada"), to_correct(half)
    for edits, reference, hint in (
        ({(2, "customer_id"): "C9"}, "form 8", "The customer id cannot change here"),
        ({(2, "bvn"): "2200000001"}, "form 8", "BVN"),
        ({(2, "bvn"): "22000000001"}, "of 08031234567", "without anybody's number"),
    ):
        answer = typed(browser, at, edits, do="screen", reference=reference)
        assert (answer.status_code, hint in unescape(answer.text)) == (400, True), hint
    assert Records(half.journal, Correction).all() == []
    rule = {"rule_column": "bank_code", "rule_came": "Bank of Nowhere", "rule_becomes": "058"}
    wrong = typed(browser, at, {}, do="screen", **FORM, **{**rule, "rule_came": "Bank"})
    assert "No row on this list has Bank under bank_code." in wrong.text
    assert not half.starts.started
    sent = typed(browser, at, {(5, "first_name"): "Ngozi"}, do="screen", **FORM, **rule)
    assert sent.status_code == 303, sent.text
    assert {place for place, _ in cells(browser.get(at).text)} == {2, 3, 4}
    (started,) = half.starts.started
    with unsealed(Path(started.input), half.journal.sealer) as clear:
        lines = list(csv.DictReader(clear.read_text().splitlines()))
    assert [(each["customer_id"], each["bank_code"]) for each in lines] == [
        *(("C4", "058"), ("C5", "058"))
    ]
    assert lines[0]["first_name"] == "Ngozi", "what was typed beside the rule is sent as well"


def test_a_total_or_a_row_that_came_twice_is_dismissed(bank: Office, refused: Path) -> None:
    """It is not to fix any more, and cannot be sent; also in later files, until its row changes."""
    browser, at = bank.browser("analyst", name="Ada"), run_of(bank)
    assert browser.post(at, dismiss="10").status_code == 303
    page = browser.get(at).text
    assert "dismissed</span> by Ada" in page
    assert {row for row, _ in cells(page)} == {7, 8}
    assert "2 rows to fix" in browser.get("/").text
    assert bank.actions().count("quarantine dismissed") == 1
    for place in ("9", "x", "-1", "0"):
        assert browser.post(at, dismiss=place).status_code == 409, place
    later, given = extract(), {"batch": "portfolio", "checks": ["karma"]}
    given["mapping"] = str(refused / "mapping.toml")
    shown: list[set[int]] = []
    for repeated in (extract()[7], extract()[7] | {"Remark": "changed"}):
        later = [extract()[0], *extract()[5:7], repeated]
        screened(bank, later, **given)
        bank = Office(bank.folder, bank.clock)
        browser = bank.browser("analyst", name=f"Bem {len(shown)}")
        page = browser.get(run_of(bank)).text
        assert ("dismissed</span> by Ada in" in page) is (not shown)
        shown.append({row for row, _ in cells(page)})
        assert f"{len(shown[-1])} rows to fix" in browser.get("/").text
    bank.journal.close()
    assert shown == [{3, 4}, {3, 4, 6}], "of three rows with a line more in one of them"


def test_values_of_merged_rows_are_corrected_in_the_file(tmp_path: Path) -> None:
    """The page of the run says so; a row cannot be given to a customer who was screened there."""
    rows = [*half_read()[:2], {**customer(1), "customer_id": ""}]
    World(tmp_path).screen(rows, batch="portfolio", checks=["karma"], merge_rows=True)
    with Office(tmp_path) as office:
        browser, at = office.browser("analyst"), run_of(office)
        page = browser.get(at.removesuffix("/fix")).text
        assert "2 values need a look. The rows of a customer were merged here" in page
        assert "Correct values" not in page
        answer = typed(browser, at, {(4, "customer_id"): "C1"}, do="screen")
        assert "correct your file, where its rows are merged" in answer.text
        assert not office.starts.started
