"""Check file: sheet, date order and merged rows are chosen; a preview of what was understood."""

from __future__ import annotations

import html
import io
import re
from pathlib import Path
from typing import TYPE_CHECKING

import openpyxl
import pytest

from nightscreen.reading.mapping_file import read_mapping
from tests.desk.office import Browser, Office
from tests.desk.test_fix import typed
from tests.desk.test_new_file import bring
from tests.screening import World, consented_on, customer

if TYPE_CHECKING:
    from collections.abc import Iterator

OPEN, SHOWN = (f"{day:%d/%m/%Y}" for day in consented_on())
CHOSEN = {"checks_shown": "1", "check": ["karma", "ecosystem"]}


@pytest.fixture
def office(tmp_path: Path) -> Iterator[Office]:
    """A desk nobody has used yet."""
    with Office(tmp_path) as office:
        yield office


def book(*dates: str, born: str = "") -> bytes:
    """Return customers with a date of consent each."""
    lines = ["customer_id,bvn,consent_reference,consented_at,date_of_birth"]
    lines += [
        f"K-{n},{customer(n)['bvn']},R-{n},{cell},{born}" for n, cell in enumerate(dates, start=1)
    ]
    return ("\n".join(lines) + "\n").encode()


def choices(page: str, name: str) -> list[str]:
    """Return what a select of the page offers."""
    select = re.search(rf'<select id="{name}"[^>]*>(.*?)</select>', page)
    return re.findall(r'<option value="([^"]*)"', select[1]) if select else []


def cells(page: str) -> list[str]:
    """Return the cells of the preview in words."""
    body = page.partition('aria-label="First rows"')[2]
    found = re.findall(r"<td[^>]*>(.*?)</td>", body)
    return [html.unescape(re.sub("<(?!/?del)[^>]*>", "", each)).strip() for each in found]


def test_open_consent_dates_wait_for_the_order(office: Office) -> None:
    """Nothing is quoted or started before; what is chosen is used, kept, and asked no more."""
    browser = office.browser("analyst", name="Ada")
    address = bring(browser, book(OPEN, OPEN), "book.csv").headers["location"]
    page = browser.get(address).text
    assert 'role="alert"' in page
    assert OPEN in page.partition('role="alert"')[2].partition("</p>")[0]
    assert f"<del>{OPEN}</del> dropped ✗" in cells(page)
    assert choices(page, "date_order") == ["", "dmy", "mdy", "ymd"]
    for does in ("quote", "screen"):
        refused = browser.post(f"{address}/{does}", **CHOSEN, date_order="")
        assert (refused.status_code, OPEN in refused.text) == (400, True)
    assert office.starts.started == []
    quoted = browser.post(f"{address}/quote", **CHOSEN, date_order="dmy")
    assert quoted.status_code == 303
    page = browser.get(address).text
    assert 'role="alert"' not in page
    assert consented_on()[0].isoformat() in cells(page)
    assert browser.post(f"{address}/screen", **CHOSEN, date_order="dmy").is_redirect
    (started,) = office.starts.started
    assert read_mapping(Path(started.mapping)).date_order == "dmy"
    assert office.journal.runs.date_order("book") == "dmy"


def test_what_the_dates_show_is_said_and_not_asked(office: Office) -> None:
    """The preview has the days as read; open dates of birth are dropped, not waited for."""
    browser = office.browser("analyst")
    address = bring(browser, book(OPEN, SHOWN, born="03/04/1990"), "b.csv").headers["location"]
    page = browser.get(address).text
    assert 'role="alert"' not in page
    assert "day first" in page.partition("What is refused or wrong")[2]
    assert {day.isoformat() for day in consented_on()} <= set(cells(page))
    assert "<del>03/04/1990</del> dropped" in cells(page)
    assert browser.post(f"{address}/screen", **CHOSEN, date_order="").is_redirect
    assert office.starts.started[0].mapping == ""


def sheet_book() -> bytes:
    """Return a workbook with two sheets of customers."""
    made = openpyxl.Workbook()
    assert made.active is not None
    made.active.title = "June"
    for title, people in (("June", (1,)), ("July", (2, 3))):
        sheet = made.active if title == "June" else made.create_sheet(title)
        sheet.append(["customer_id", "bvn" if title == "June" else "BVN No"])
        for number in people:
            sheet.append([f"{title}-{number}", customer(number)["bvn"]])
    sink = io.BytesIO()
    made.save(sink)
    return sink.getvalue()


def test_another_sheet_is_shown_before_it_is_screened(office: Office) -> None:
    """Its own headings are shown; the run reads the sheet that was chosen."""
    browser = office.browser("analyst")
    address = bring(browser, sheet_book()).headers["location"]
    page = browser.get(address).text
    assert choices(page, "sheet") == ["June", "July"]
    assert "June-1" in cells(page)
    first = {"heading": ["customer_id", "bvn"], "h0": "customer_id", "h1": "bvn"}
    asked = {**CHOSEN, **first, "sheet_read": "June", "sheet": "July"}
    assert browser.post(f"{address}/screen", **asked).is_redirect
    assert office.starts.started == []
    page = browser.get(address).text
    assert {"July-2", "July-3"} <= set(cells(page))
    assert "BVN No" in page
    again = {**CHOSEN, "sheet_read": "July", "sheet": "July"}
    assert browser.post(f"{address}/screen", **again).is_redirect
    assert read_mapping(Path(office.starts.started[0].mapping)).sheet == "July"


def test_rows_of_one_customer_are_merged_where_that_is_chosen(office: Office) -> None:
    """The page counts customers then, and no row is refused as a repeat."""
    browser = office.browser("analyst")
    row = f"K-1,{customer(1)['bvn']},500"
    data = f"customer_id,bvn,exposure\n{row}\n{row}\n".encode()
    address = bring(browser, data, "loans.csv").headers["location"]
    assert "1 would be screened" in browser.get(address).text
    asked = {**CHOSEN, "merge_shown": "1", "merge_rows": "1"}
    assert browser.post(f"{address}/quote", **asked).is_redirect
    page = browser.get(address).text
    assert "2 would be screened" in page
    assert "refused</span>" not in page
    assert browser.post(f"{address}/screen", **asked).is_redirect
    assert office.starts.started[0].merge_rows


def understood(browser: Browser, data: bytes) -> list[str]:
    """Return the cells of a file's preview."""
    return cells(browser.get(bring(browser, data, "a.csv").headers["location"]).text)


def test_preview_shows_values_as_they_were_understood(office: Office) -> None:
    """A phone in its own form, an amount in digits; what cannot be read is struck out."""
    browser = office.browser("analyst")
    data = (
        b"customer_id,phone,exposure,bank_name,Note\n"
        b'K-1,0803 123 4567,"1,250.00",NIL,as it is\n'
        b"K-2,08031234568,12-50,GTBank,\n"
    )
    found = understood(browser, data)
    assert found[:5] == ["K-1", "+2348031234567", "1250.00", "<del>NIL</del> dropped", "as it is"]
    assert found[5:] == ["K-2", "+2348031234568", "<del>12-50</del> dropped", "GTBank", ""]


@pytest.mark.parametrize(
    "wrong", [{"consent_withdrawn_at": "yes"}, {"consent_expires_at": "sometime"}]
)
def test_consent_that_cannot_be_read_is_not_said_to_be_missing(
    tmp_path: Path, wrong: dict[str, str]
) -> None:
    """The customer's card says so, shows nothing, and nothing is asked again."""
    consented = {"consent_reference": "R-1", "consented_at": consented_on()[0].isoformat()}
    World(tmp_path).screen([customer(59, **consented, **wrong)], batch="book")
    with Office(tmp_path) as office:
        browser = office.browser("analyst")
        page = browser.get("/customers/C59").text
        card = page.partition('aria-label="Credit history"')[2].partition("</section>")[0]
        assert "cannot be read" in card
        assert "No consent is on record" not in page
        again = browser.post("/customers/C59/again", check="ecosystem")
        assert again.status_code == 400
        assert office.starts.started == []


def test_refused_rows_keep_the_order_that_their_file_showed(tmp_path: Path) -> None:
    """The date that shows the order is in another row, which was not refused."""
    rows = [
        customer(each, consent_reference=f"R-{each}", consented_at=day)
        for each, day in ((1, SHOWN), (2, OPEN))
    ]
    rows[1]["customer_id"] = ""
    night = World(tmp_path).screen(rows, batch="book", checks=["ecosystem"])
    at = f"/runs/{night.report['run_id']}/fix"
    with Office(tmp_path) as office:
        sent = typed(office.browser("analyst"), at, {(0, "customer_id"): "C2"}, do="screen")
        assert sent.status_code == 303, sent.text
        (started,) = office.starts.started
        assert started.date_order == "dmy"
