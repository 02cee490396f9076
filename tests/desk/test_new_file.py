"""A new file: brought, sealed, understood, corrected, quoted, screened, and gone again."""

from __future__ import annotations

import io
import os
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import openpyxl
import pytest

from nightscreen.desk.new_file import mapping_of
from nightscreen.desk.uploads import plain_name
from nightscreen.files.sealed_file import is_sealed, unsealed
from nightscreen.privacy.purging import due, purge
from nightscreen.reading.mapping_file import mapping_toml
from nightscreen.reading.open_file import open_source
from nightscreen.schemas.errors import UsageError
from tests.desk.office import Browser, Office
from tests.screening import customer

if TYPE_CHECKING:
    from collections.abc import Iterator

HEADINGS = ("Ref", "Surname", "Other Names", "BVN No", "NUBAN", "Bank", "Outstanding", "Remark")


@pytest.fixture
def office(tmp_path: Path) -> Iterator[Office]:
    """A desk nobody has used yet."""
    with Office(tmp_path) as office:
        yield office


def workbook(number: int = 8) -> bytes:
    """Return a messy workbook: a title above the headings, a wrong BVN, an id nobody names so."""
    book = openpyxl.Workbook()
    sheet = book.active
    assert sheet is not None
    sheet.append(["Extract of branch 7"])
    sheet.append(HEADINGS)
    for each in range(1, number + 1):
        row = customer(each)
        bvn = "123" if each == 3 else row["bvn"]
        sheet.append(
            [
                *(f"K-{each}", row["last_name"], row["first_name"], bvn),
                *(row["account_number"], row["bank_code"], row["exposure"], "ok"),
            ]
        )
    sink = io.BytesIO()
    book.save(sink)
    return sink.getvalue()


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


def test_file_is_sealed_understood_corrected_quoted_and_screened(office: Office) -> None:
    """A heading nobody knows is corrected by its select; the run starts with what was chosen."""
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


def test_sheet_with_the_data_is_asked_about_though_a_cover_comes_first(office: Office) -> None:
    """Where no heading means customer_id, the data's own headings are shown, to choose one of."""
    book = openpyxl.Workbook()
    cover = book.active
    assert cover is not None
    cover.append(["ABC MFB LTD", "Loan book"])
    data = book.create_sheet("Nov")
    for row in (["Loan listing"], [], ["S/N", "Who", "SURNAME", "BVN"]):
        data.append(row)
    data.append([1, "CU1", "ADE", "22212345678"])
    content = io.BytesIO()
    book.save(content)
    browser = office.browser("analyst", name="Ada")
    address = bring(browser, content.getvalue()).headers["location"]
    page = browser.get(address).text
    assert "choose customer_id for one of the headings below" in page
    assert "mapping file" not in page
    assert set(understood(page)) == {"S/N", "Who", "SURNAME", "BVN"}
    assert ">Screen</button>" not in page
    fields = {"h0": "", "h1": "customer_id", "h2": "last_name", "h3": "bvn"}
    asked = {"heading": ["S/N", "Who", "SURNAME", "BVN"], "checks_shown": "1", "check": ["karma"]}
    assert browser.post(f"{address}/quote", **asked, **fields).status_code == 303
    page = browser.get(address).text
    assert "1 row: 1 would be screened" in page
    assert ">Screen</button>" in page


def test_what_was_brought_lies_nowhere_in_clear(office: Office) -> None:
    """On disk there is sealed text alone, which only the data key opens."""
    data = b"customer_id,bvn\nK-1,22000000001\n"
    browser = office.browser("analyst")
    assert bring(browser, data, "a.csv").status_code == 303
    (file,) = (office.folder / "home" / "desk").glob("*.sealed")
    assert is_sealed(file)
    for each in (office.folder / "home").rglob("*"):
        if each.is_file():
            assert b"22000000001" not in each.read_bytes()
    with unsealed(file, office.journal.sealer) as path:
        assert path.read_bytes() == data
    assert not path.exists()


def test_file_of_somebody_else_is_not_found(office: Office) -> None:
    """Its address is of no use to another analyst."""
    address = bring(office.browser("analyst", name="Ada"), workbook()).headers["location"]
    other = office.browser("analyst", name="Bem")
    assert other.get(address).status_code == 404
    assert other.post(f"{address}/screen").status_code == 404
    assert office.starts.started == []


@pytest.mark.parametrize(
    ("data", "status"),
    [(b"", 400), (b"\x00\x01\x02" * 50, 303), (b"PK\x03\x04 no workbook", 303), (b"a,b\n", 303)],
)
def test_file_that_cannot_be_read_is_said_so(office: Office, data: bytes, status: int) -> None:
    """The page says what is wrong under the file's own name, and offers to begin again."""
    browser = office.browser("analyst")
    brought = bring(browser, data, "odd.csv")
    assert brought.status_code == status
    if status == 303:
        page = browser.get(brought.headers["location"])
        assert page.status_code == 400
        assert "/proc/" not in page.text
        assert 'role="alert"' in page.text


def test_oversized_and_broken_uploads_leave_nothing(office: Office) -> None:
    """More than may be, no end, another site's form: refused, and nothing stays."""
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
    folder = office.folder / "home" / "desk"
    assert not folder.exists() or list(folder.iterdir()) == []
    assert office.browser("auditor").ask("POST", "/new", files=small).status_code == 403


def test_upload_goes_after_a_day_if_nobody_screened_it(office: Office) -> None:
    """The file is removed; who brought what and when stays."""
    browser = office.browser("analyst", name="Ada")
    address = bring(browser, workbook()).headers["location"]
    office.clock.forward(hours=23)
    assert office.context.uploads.sweep() == 0
    office.clock.forward(hours=2)
    assert office.context.uploads.sweep() == 1
    assert list((office.folder / "home" / "desk").glob("*.sealed")) == []
    again = office.browser("administrator")
    assert again.get(address).status_code == 403
    assert office.context.audit.entries(action="file uploaded")[0]["user"] == "Ada"


def test_one_applicant_is_screened_at_once(office: Office) -> None:
    """The form is checked, quoted and started with origination's purpose; a wrong BVN is said."""
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
    assert office.starts.started == []
    assert browser.post("/new/applicant", **fields).status_code == 303
    (started,) = office.starts.started
    assert (started.purpose, started.batch) == ("origination", "applicants")
    with unsealed(Path(started.input), office.journal.sealer) as path:
        header = open_source(path).header
    assert header.fed_back, "applicants of before are not gone"
    assert "line" not in {column.heading for column in header.columns}


def test_mapping_says_what_was_chosen_for_each_heading() -> None:
    """Columns that were taken for something and are not any more are said to be nothing."""
    mapping = mapping_of(
        {"Ref": "customer_id", "BVN No": "", "Remark": "-"}, {"Ref": "", "BVN No": "bvn"}
    )
    assert (
        mapping_toml(mapping) == 'drop = ["Remark"]\n\n[columns]\ncustomer_id = ["Ref"]\nbvn = []\n'
    )


def test_uploads_know_their_folder(office: Office) -> None:
    """An id that is none of ours leads nowhere."""
    uploads = office.context.uploads
    for foreign in ("../journal", "x" * 32, "", "0" * 31):
        assert uploads.find(foreign) is None


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("loans ngozi@example.ng.csv", "loans.csv"),
        ("C:\\lists\\22000000001.xlsx", "batch.xlsx"),
        ("", "file"),
        ("branch 7.csv", "branch 7.csv"),
    ],
)
def test_name_of_an_upload_names_nobody(name: str, shown: str) -> None:
    """What is shown, and what the batch is named for, holds no person's number or address."""
    assert plain_name(name) == shown


def test_failed_start_can_be_repeated(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page stays where it was, and the next click starts the run, once."""
    browser = office.browser("analyst", name="Ada")
    address = bring(browser, b"customer_id,bvn\nK-1,22000000001\n", "a.csv").headers["location"]
    fields = {"checks_shown": "1", "check": ["karma"], "max_spend": "100"}

    def unreachable(_: object) -> None:
        raise UsageError("the engine's server does not answer")

    with monkeypatch.context() as broken:
        broken.setattr(office.starts, "start", unreachable)
        assert browser.post(f"{address}/screen", **fields).status_code == 503
    assert "is starting" not in browser.get(address).text
    assert browser.post(f"{address}/screen", **fields).status_code == 303
    upload = office.context.uploads.find(address.rpartition("/")[2])
    assert upload is not None
    with office.context.uploads.starting(upload) as is_first:
        assert not is_first
    assert len(office.starts.started) == 1


def test_files_no_run_is_resumed_with_go(office: Office) -> None:
    """One that was never written down goes after a day; without a desk served, after a week."""
    address = bring(office.browser("analyst"), b"customer_id\nK-1\n", "a.csv").headers["location"]
    folder = office.folder / "home" / "desk"
    known = folder / f"{address.rpartition('/')[2]}.sealed"
    cut_short = folder / f"{'0' * 32}.sealed"
    cut_short.write_bytes(b"nightscreen sealed 1\n")
    for file, days in ((cut_short, 2), (known, 8)):
        os.utime(file, (time.time() - days * 86_400,) * 2)
    office.context.uploads.sweep()
    assert list(folder.iterdir()) == [known]
    purge(office.journal, due(office.journal, office.settings.retention))
    assert list(folder.iterdir()) == []
