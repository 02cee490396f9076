"""Files as the lender gave them: which of them name a person, whatever their form."""

from __future__ import annotations

from pathlib import Path

import openpyxl
import pytest

from nightscreen.privacy.given_files import GivenFileMatcher
from nightscreen.reading.mapping_file import Mapping

BVN = "22200000003"
PERSON = GivenFileMatcher({"12"}, {}, {"bvn": {BVN}, "phone": {"+2348031234567"}})


@pytest.mark.parametrize(
    ("text", "is_named", "rows"),
    [
        (f"customer_id,bvn\n12,{BVN}\n13,\n", True, [{"customer_id": "12", "bvn": BVN}]),
        ("customer_id,tenor\n13,12\n", False, []),
        ("Cust ID;BVN\n12;\n", True, [{"customer_id": "12"}]),
        (f"customer_id,bvn\n13,{BVN}\n", False, []),
        (f"customer_id,bvn\n,{BVN}\n", True, [{"customer_id": "", "bvn": BVN}]),
        ("customer_id,phone\n,0803 123 4567\n", True, [{"customer_id": "", "phone": None}]),
        (f'customer_id,bvn\n13,1\n14,"{BVN},x\n15,2,3\n', True, [{}]),
        (f"customer_id,bvn,IPPIS No\n12,{BVN},900\n", True, [{"customer_id": "12"}]),
        ("name,tenor\nAda,12\n", True, []),
        (f"please call {BVN} back\n", True, []),
        ("nothing to see\n", False, []),
        ("", False, []),
    ],
)
def test_a_text_names_a_person_by_id_or_where_nobody_else_is_named(
    tmp_path: Path, text: str, is_named: bool, rows: list[dict[str, str | None]]
) -> None:
    """A number in another column is nobody's id; a row with another's id is that customer's."""
    path = tmp_path / "given.csv"
    path.write_text(text)
    found = PERSON.scan(path)
    assert (found.anywhere, found.unread) == (is_named, False)
    assert len(found.rows) == len(rows)
    for learned, row in zip(found.rows, rows, strict=True):
        assert all(learned[name] == value for name, value in row.items() if value is not None)


def test_a_workbook_counts_as_a_whole_and_what_nobody_can_read_is_told(tmp_path: Path) -> None:
    """A hidden sheet, a title above the headings, a remark beside; damaged it may name anybody."""
    book = openpyxl.Workbook()
    first = book.worksheets[0]
    first.append(["customer_id", "bvn"])
    first.append(["13", ""])
    hidden = book.create_sheet("notes")
    hidden.append(["Ada", f"BVN {BVN}"])
    hidden.sheet_state = "hidden"
    book.save(tmp_path / "book.xlsx")
    assert PERSON.scan(tmp_path / "book.xlsx").anywhere
    (tmp_path / "broken.xlsx").write_bytes((tmp_path / "book.xlsx").read_bytes()[:200])
    assert PERSON.scan(tmp_path / "broken.xlsx").unread
    for place in ("A1", "H300"):
        book = openpyxl.Workbook()
        sheet = book.worksheets[0]
        sheet["A2"], sheet["B2"], sheet["A3"] = "customer_id", "bvn", "13"
        sheet[place] = f"For BVN {BVN}"
        book.save(tmp_path / "beside.xlsx")
        assert PERSON.scan(tmp_path / "beside.xlsx").anywhere, place


def test_a_heading_that_only_a_mapping_knows_says_whose_a_row_is(tmp_path: Path) -> None:
    """Another column that looks like an id is none."""
    mapping = Mapping(columns={"customer_id": ("Ref",)})
    mapped = GivenFileMatcher({"12"}, {}, {"bvn": {BVN}}, mapping=mapping)
    path = tmp_path / "given.csv"
    path.write_text("Ref,Customer No\n12,99\n13,12\n")
    assert [row["customer_id"] for row in mapped.scan(path).rows] == ["12"]
