"""A new file: brought, sealed, understood, corrected, quoted, screened, and gone again."""

from __future__ import annotations

import html
import io
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import openpyxl
import pytest

from nightscreen.desk.uploads import plain_name
from nightscreen.files.sealed_file import is_sealed, unsealed
from nightscreen.journal.audit import AuditQuery
from nightscreen.reading.mapping_file import read_mapping
from nightscreen.reading.open_file import open_source
from nightscreen.schemas.errors import UsageError
from nightscreen.schemas.users import Role
from tests.desk.office import Browser, Office
from tests.screening import World, consented_on, customer

HEADINGS = ("Ref", "Surname", "Other Names", "BVN No", "NUBAN", "Bank", "Outstanding", "Remark")


def workbook_of(**sheets: Iterable[Sequence[object]]) -> bytes:
    """Return a workbook of some sheets, each with its rows."""
    book, sink = openpyxl.Workbook(write_only=True), io.BytesIO()
    for title, rows in sheets.items():
        sheet = book.create_sheet(title)
        for row in rows:
            sheet.append(row)
    book.save(sink)
    return sink.getvalue()


def workbook() -> bytes:
    """Return a messy workbook: a title above the headings, a wrong BVN, an id nobody names so."""
    people = {f"K-{each}": customer(each) for each in range(1, 9)}
    people["K-3"]["bvn"] = "123"
    names = ("last_name", "first_name", "bvn", "account_number", "bank_code", "exposure")
    rows = [(key, *(row[name] for name in names), "ok") for key, row in people.items()]
    return workbook_of(Extract=[["Extract of branch 7"], HEADINGS, *rows])


def bring(browser: Browser, data: bytes, name: str = "applicants.xlsx", **fields: Any) -> Any:  # noqa: ANN401 - as httpx
    """Send the form of a new file."""
    form = {"purpose": "portfolio", "checks_shown": "1", "check": ["karma"]}
    return browser.ask("POST", "/new", data=form | fields, files={"file": (name, data)})


def understood(page: str) -> dict[str, str]:
    """Return what each heading's select stands at."""
    found = {}
    for label, body in re.findall(
        r'<label for="h\d+">([^<]+)</label><select[^>]*>(.*?)</select>', page
    ):
        chosen = re.search(r'<option value="([^"]*)" selected', body)
        found[label] = chosen[1] if chosen else ""
    return found


def test_file_is_sealed_understood_corrected_quoted_and_screened(
    office: Office, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A heading nobody knows is corrected by its select; the run starts with what was chosen.

    A start that fails can be repeated, and the run starts once.
    """
    browser = office.browser("analyst", name="Ada")
    brought = bring(browser, workbook(), max_spend="1,000")
    assert brought.status_code == 303, brought.text
    address = brought.headers["location"]
    page = browser.get(address)
    assert "customer_id" in page.text
    means = understood(page.text)
    assert set(means) == set(HEADINGS)
    assert (means["Surname"], means["NUBAN"]) == ("last_name", "account_number")
    means["Ref"] = "customer_id"
    fields = {f"h{at}": means[heading] for at, heading in enumerate(HEADINGS)}
    asked = {"heading": list(HEADINGS), "checks_shown": "1", "check": ["karma"], **fields}
    quoted = browser.post(f"{address}/quote", max_spend="1,000", **asked)
    assert quoted.status_code == 303, quoted.text
    page = browser.get(address)
    assert page.status_code == 200
    assert '<h2 id="q">Quote</h2>' in page.text
    assert 'class="wrong"' in page.text
    assert 'class="ok"' in page.text
    assert "8 rows: 8 would be screened" in page.text

    def unreachable(_: object) -> None:
        raise UsageError("the engine's server does not answer")

    with monkeypatch.context() as broken:
        broken.setattr(office.starts, "start", unreachable)
        assert browser.post(f"{address}/screen", max_spend="1,000", **asked).status_code == 400
    assert "is starting" not in browser.get(address).text
    screened = browser.post(f"{address}/screen", max_spend="1,000", **asked)
    assert screened.status_code == 303
    (started,) = office.starts.started
    assert started.max_spend == "1000"
    assert started.checks == ["karma"]
    assert started.batch == "applicants"
    assert "is starting" in browser.get(address).text
    assert browser.post(f"{address}/screen").status_code == 303
    assert len(office.starts.started) == 1
    assert office.actions() == ["file uploaded", "file quoted", "run started"]
    logged = capsys.readouterr().err
    assert (logged.count("page=quote"), logged.count("page=screen")) == (1, 3)


def test_sheet_with_the_data_is_asked_about_though_a_cover_comes_first(office: Office) -> None:
    """Where no heading means customer_id, the data's own headings are shown, to choose one of."""
    headings, row = ["S/N", "Who", "SURNAME", "BVN"], [1, "CU1", "ADE", "22212345678"]
    data = workbook_of(
        Cover=[["ABC MFB LTD", "Loan book"]], Nov=[["Loan listing"], [], headings, row]
    )
    browser = office.browser("analyst", name="Ada")
    address = bring(browser, data).headers["location"]
    page = browser.get(address).text
    assert "choose customer_id for one of the headings below" in page
    assert "mapping file" not in page
    assert set(understood(page)) == set(headings)
    assert ">Screen</button>" not in page
    fields = {"h0": "", "h1": "customer_id", "h2": "last_name", "h3": "bvn"}
    asked = {"heading": headings, "checks_shown": "1", "check": ["karma"]}
    assert browser.post(f"{address}/quote", **asked, **fields).status_code == 303
    page = browser.get(address).text
    assert "1 row: 1 would be screened" in page
    assert ">Screen</button>" in page


def test_two_headings_of_one_column_wait_until_somebody_chooses(office: Office) -> None:
    """A form sent as it came decides nothing: no column is screened that nobody chose."""
    data = b"Customer ID,BVN,Bank Verification Number\nK-1,22000000001,22000000002\n"
    browser = office.browser("analyst", name="Ada")
    address = bring(browser, data, "a.csv").headers["location"]
    page = browser.get(address)
    means = list(understood(page.text).values())
    headings = ["Customer ID", "BVN", "Bank Verification Number"]
    asked: dict[str, Any] = {"heading": headings, "was": means, "check": ["karma"]}
    asked["checks_shown"] = "1"
    sent = [means, ["customer_id", "", "bvn"]]
    for fields, status in zip(sent, (400, 303), strict=True):
        assert "both mean bvn" in browser.get(address).text
        chosen = {f"h{at}": each for at, each in enumerate(fields)}
        assert browser.post(f"{address}/quote", **asked, **chosen).status_code == status
    assert "1 row: 1 would be screened" in browser.get(address).text


def test_what_was_brought_lies_nowhere_in_clear_and_goes_after_a_day(office: Office) -> None:
    """On disk there is sealed text alone; who brought what and when stays once it is removed."""
    data = b"customer_id,bvn\nK-1,22000000001\n"
    bring(office.browser("analyst", name="Ada"), data, "a.csv")
    (file,) = (office.folder / "home" / "desk").glob("*.sealed")
    assert is_sealed(file)
    for each in (office.folder / "home").rglob("*"):
        if each.is_file():
            assert b"22000000001" not in each.read_bytes()
    with unsealed(file, office.journal.sealer) as path:
        assert path.read_bytes() == data
    assert not path.exists()
    office.clock.forward(hours=23)
    assert office.context.uploads.sweep() == 0
    office.clock.forward(hours=2)
    assert office.context.uploads.sweep() == 1
    assert not file.exists()
    assert office.context.audit.find(AuditQuery(action="file uploaded"))[0]["user"] == "Ada"


def test_oversized_broken_and_unreadable_uploads_are_refused(office: Office) -> None:
    """Of more than may be, no end, no content or another site's form nothing stays.

    A file that cannot be read is said so under its own name, not that of a place on disk.
    """
    browser = office.browser("analyst")
    large = {"file": ("a.csv", b"x" * (101 * 1024 * 1024))}
    assert browser.ask("POST", "/new", files=large).status_code == 413
    small = {"file": ("a.csv", b"customer_id\n1\n")}
    foreign = {"sec-fetch-site": "cross-site"}
    assert browser.ask("POST", "/new", files=small, headers=foreign).status_code == 403
    kind = {"content-type": "multipart/form-data; boundary=b"}
    part = b'--b\r\nContent-Disposition: form-data; name="file"'
    for cut in (part, part + b'; filename="a.csv"\r\n\r\ncustomer_id\n1\n'):
        assert browser.ask("POST", "/new", content=cut, headers=kind).status_code == 400
    assert (
        browser.ask("POST", "/new", content=b"x", headers={"content-type": "a/b"}).status_code
        == 415
    )
    assert bring(browser, b"", "odd.csv").status_code == 400
    folder = office.folder / "home" / "desk"
    assert not folder.exists() or list(folder.iterdir()) == []
    for data in (b"\x00\x01\x02" * 50, b"PK\x03\x04 no workbook", b"a,b\n"):
        page = browser.get(bring(browser, data, "odd.csv").headers["location"])
        assert page.status_code == 400, data[:9]
        assert "/proc/" not in page.text, data[:9]
        assert 'role="alert"' in page.text, data[:9]


def test_one_applicant_is_screened_at_once(office: Office) -> None:
    """The form is checked and started with origination's purpose; it leads to what was decided."""
    browser = office.browser("analyst")
    row = customer(5)
    fields: dict[str, Any] = {
        "customer_id": "A-1",
        "first_name": row["first_name"],
        "last_name": row["last_name"],
        "bvn": row["bvn"],
        "checks_shown": "1",
        "check": ["karma"],
        "do": "screen",
    }
    wrong = browser.post("/new/applicant", **{**fields, "bvn": "12"})
    assert wrong.status_code == 400
    assert 'value="A-1"' in wrong.text
    assert "Credit history</label>" in wrong.text
    assert office.starts.started == []
    sent = browser.post("/new/applicant", **fields)
    assert sent.status_code == 303
    (started,) = office.starts.started
    assert (started.purpose, started.batch) == ("origination", "applicants")
    with unsealed(Path(started.input), office.journal.sealer) as path:
        header = open_source(path).header
    assert header.fed_back, "applicants of before are not gone"
    assert "line" not in {column.heading for column in header.columns}
    address = sent.headers["location"]
    assert 'hx-trigger="every 400ms"' in browser.get(address).text
    office.journal.close()
    night = World(office.folder).screen(**started.model_dump(include=started.model_fields_set))
    with Office(office.folder) as again:
        browser = again.browser("analyst", name="Bem")
        upload = again.context.uploads.find(address.rpartition("/")[2])
        assert upload is not None
        again.context.uploads._set(upload, user="Bem")
        decided = f"/customers/A-1?run={night.report['run_id']}"
        assert browser.get(address).headers["location"] == decided
        follows = browser.ask("GET", address, headers={"hx-request": "true"})
        assert follows.headers["hx-redirect"] == decided
        assert "What was decided" in browser.get(decided).text


def test_name_of_an_upload_names_nobody() -> None:
    """What is shown, and what the batch is named for, holds no person's number or address."""
    for name, shown in {
        "loans ngozi@example.ng.csv": "loans.csv",
        "C:\\lists\\22000000001.xlsx": "batch.xlsx",
        "": "file",
        "branch 7.csv": "branch 7.csv",
    }.items():
        assert plain_name(name) == shown


OPEN, SHOWN = (f"{day:%d/%m/%Y}" for day in consented_on())
CHOSEN = {"checks_shown": "1", "check": ["karma", "ecosystem"]}


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


def sheet_book() -> bytes:
    """Return a workbook with two sheets of customers."""
    bvns = {number: customer(number)["bvn"] for number in (1, 2, 3)}
    return workbook_of(
        June=[("customer_id", "bvn"), ("June-1", bvns[1])],
        July=[("customer_id", "BVN No"), ("July-2", bvns[2]), ("July-3", bvns[3])],
    )


def test_another_sheet_is_shown_before_it_is_screened(office: Office) -> None:
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


def test_preview_shows_values_as_they_were_understood(office: Office) -> None:
    browser = office.browser("analyst")
    data = (
        b"customer_id,phone,exposure,bank_name,Note\n"
        b'K-1,0803 123 4567,"1,250.00",NIL,as it is\n'
        b"K-2,08031234568,12-50,GTBank,\n"
    )
    found = cells(browser.get(bring(browser, data, "a.csv").headers["location"]).text)
    assert found[:5] == ["K-1", "+2348031234567", "1250.00", "<del>NIL</del> dropped", "as it is"]
    assert found[5:] == ["K-2", "+2348031234568", "<del>12-50</del> dropped", "GTBank", ""]


def test_run_of_an_upload_is_asked_for_by_who_brought_it_and_a_refusal_removes_the_file(
    office: Office,
) -> None:
    """Whoever brought the file asked for it; who refuses sends the file away at once."""
    analyst = office.browser("analyst", name="Ada")
    address = bring(analyst, workbook()).headers["location"]
    assert address.removeprefix("/new/").isalpha(), "no id looks like somebody's number"
    means = understood(analyst.get(address).text) | {"Ref": "customer_id"}
    fields = {f"h{at}": means[heading] for at, heading in enumerate(HEADINGS)}
    analyst.post(f"{address}/quote", heading=list(HEADINGS), **fields)
    upload = office.context.uploads.find(address.rpartition("/")[2])
    assert upload is not None
    parameters = office.context.uploads.parameters(upload)
    path = office.context.uploads.path(upload.upload_id)
    office.await_approval("root", **parameters.model_dump(exclude_defaults=True))
    run = office.waiting
    approver = office.browser("approver")
    office.browser("approver", name="Bem")
    office.context.accounts.change("Ada", [Role.APPROVER])
    office.context.accounts.confirm("Ada", office.user("Bem"))
    assert "You asked for this yourself" in analyst.get("/approvals").text
    assert analyst.get(address).headers["location"] == f"/runs/{run}"
    assert "asked by Ada" in approver.get("/approvals").text
    approver.post(f"/approvals/{run}", do="refuse")
    assert not path.exists()
