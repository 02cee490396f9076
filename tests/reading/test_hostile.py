"""Files made to harm, or mangled beyond reason: each has a bound and one line, other rows go on."""

from __future__ import annotations

import io
import re
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path

import openpyxl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nightscreen.reading import workbook
from nightscreen.reading.mapping_file import read_mapping
from nightscreen.reading.open_file import TableSource, open_source
from nightscreen.reading.workbook import BoundedArchive, SwollenWorkbookError
from nightscreen.runs.intake import Intake
from nightscreen.schemas.errors import InputError, SettingsError

HEADINGS = "customer_id,bvn,surname\n"
MB = 1 << 20
SHEET, STRINGS = "xl/worksheets/sheet1.xml", "xl/sharedStrings.xml"
FORMATS = b'<cellXfs count="1">'
SHEET_NAMES = b"http://schemas.openxmlformats.org/spreadsheetml/2006/main"
STRINGS_TYPE = (
    b'<Override PartName="/xl/sharedStrings.xml" ContentType="application/vnd.openxmlformats-'
    b'officedocument.spreadsheetml.sharedStrings+xml"/>'
)

Part = tuple[bytes, bytes, bytes]
"""What a part holds before and after its filling, and what it is filled with again and again."""


def rows(source: TableSource) -> tuple[list[str], list[tuple[int, str]]]:
    """Return the customer ids that go on, and line and hint of each row that does not."""
    ids: list[str] = []
    broken: list[tuple[int, str]] = []
    at = [column.known for column in source.header.columns].index("customer_id")
    for batch in source.batches():
        ids += batch.columns.column(at).to_pylist()
        broken += [(row.line, row.hint) for row in batch.broken]
    return ids, broken


def repacked(
    path: Path,
    edit: Callable[[str, bytes], bytes | Part],
    *,
    kilobytes: int = 0,
    packing: int = zipfile.ZIP_DEFLATED,
) -> Path:
    """Write a workbook of three customers whose parts are as `edit` has them, by name."""
    book, plain = openpyxl.Workbook(), io.BytesIO()
    sheet = book.worksheets[0]
    for row in ("customer_id bvn surname", "C1 1 Ade", "C2 2 SWOLLEN", "C3 3 Bola"):
        sheet.append(row.split())
    book.save(plain)
    with zipfile.ZipFile(plain) as source, zipfile.ZipFile(path, "w", packing) as target:
        for name in dict.fromkeys([*source.namelist(), STRINGS]):
            held = source.read(name) if name in source.namelist() else b""
            edited = edit(name, held)
            before, after, filling = edited if isinstance(edited, tuple) else (edited, b"", b"")
            if not before + after:
                continue
            with target.open(name, "w") as out:
                out.write(before)
                for _ in range(kilobytes * 1024 // len(filling) if filling else 0):
                    out.write(filling)
                out.write(after)
    return path


ROW, NAMED = b'<row r="1"/>', b'<sheet name="a" sheetId="9"/>'
SWOLLEN: dict[str, tuple[str, bytes, bytes, bytes, bytes]] = {
    "one cell": (SHEET, b"SWOLLEN", b"", ("é&amp;" * 5000).encode(), b""),
    "one row": (SHEET, b"</row>", b"", b"<c/>" * 9000, b"</row>"),
    "a tag": (SHEET, b"<sheetData>", b'<sheetData a="', b"a" * 40_000, b'">'),
    "rows": (SHEET, b"<sheetData>", b"<sheetData>", ROW * 4000, b""),
    "formats": ("xl/styles.xml", FORMATS, FORMATS, b'<xf numFmtId="0"/>' * 4000, b""),
    "names of sheets": ("xl/workbook.xml", b"<sheets>", b"<sheets>", NAMED * 400, b""),
    "the strings": (STRINGS, b"</sst>", b"", b"<si><t>Ade</t></si>" * 2000, b"</sst>"),
}
"""The part that swells, at what, what takes the place of it before the filling, the filling, and
what comes after it."""


def with_strings(name: str, content: bytes, strings: bytes) -> bytes:
    """Return a part of a workbook that has a table of texts."""
    if name == "[Content_Types].xml" and STRINGS.encode() not in content:
        return content.replace(b"</Types>", STRINGS_TYPE + b"</Types>")
    return strings if name == STRINGS else content


def swollen_workbook(path: Path, *, into: str, **size: int) -> Path:
    part, at, before_it, filling, after_it = SWOLLEN[into]

    def edit(name: str, content: bytes) -> bytes | Part:
        if into == "the strings":
            content = with_strings(name, content, b'<sst xmlns="%s"></sst>' % SHEET_NAMES)
        if name != part:
            return content
        before, mark, after = content.partition(at)
        assert mark
        return before + before_it, after_it + after, filling

    return repacked(path, edit, **size)


def test_a_long_cell_refuses_its_row_only(tmp_path: Path) -> None:
    """A megabyte in one cell, as no spreadsheet writes it: the other rows go on."""
    path = swollen_workbook(tmp_path / "long.xlsx", kilobytes=1024, into="one cell")
    ids, broken = rows(open_source(path))
    assert ids == ["C1", "C3"]
    assert [line for line, _ in broken] == [3]
    assert "32767 characters" in broken[0][1]


@pytest.mark.parametrize(
    ("into", "megabytes", "packing"),
    [
        *(("the strings", 70, True), ("one row", 70, True), ("a tag", 70, True)),
        *(("one cell", 100, True), ("rows", 8, True), ("formats", 3, True)),
        # an archive as large as what it holds says nothing by its size: its rows do
        *(("names of sheets", 0.1, True), ("one cell", 6, False)),
    ],
)
def test_a_workbook_that_swells_elsewhere_is_refused_in_one_line(
    tmp_path: Path, into: str, megabytes: float, *, packing: bool
) -> None:
    """What has no row to give way for ends the reading before memory fills, or hours go by."""
    path = swollen_workbook(
        tmp_path / "swollen.xlsx",
        kilobytes=int(megabytes * 1024),
        into=into,
        packing=zipfile.ZIP_DEFLATED if packing else zipfile.ZIP_STORED,
    )
    tracemalloc.start()
    with pytest.raises(InputError, match="unpacks to far more than a sheet holds") as caught:
        rows(open_source(path))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert "\n" not in str(caught.value)
    assert not packing or peak < 40 * MB


@pytest.mark.parametrize("megabytes", [0, 20])
def test_a_table_of_texts_is_what_the_spreadsheet_shows(tmp_path: Path, megabytes: int) -> None:
    """Formatted pieces are joined and readings left out; of one text repeated 16 MB are enough."""
    texts = (
        b"<sst xmlns='%s'><si><t>customer_id</t></si><si><t xml:space='preserve'> C1 </t></si><si/>"
        b"<si><r><rPr><b/></rPr><t>Ad\xc3\xa9</t></r><r><t>lek&amp;e</t></r>"
        b"<rPh sb='0' eb='1'><t>no part of it</t></rPh></si><si><t>_x005F_x000D_</t></si>"
    ) % SHEET_NAMES
    texts += b"<si><t>Ade</t></si>" * (megabytes * MB // 19) + b"</sst>"
    cells = b"".join(b'<row><c t="s"><v>%d</v></c></row>' % number for number in range(5))

    def edit(name: str, content: bytes) -> bytes:
        if name != SHEET:
            return with_strings(name, content, texts)
        before, _, rest = content.partition(b"<sheetData>")
        return (
            before + b"<sheetData>" + cells + b"</sheetData>" + rest.partition(b"</sheetData>")[2]
        )

    path = repacked(tmp_path / "texts.xlsx", edit)
    if megabytes:
        with (
            BoundedArchive(path) as archive,
            pytest.raises(SwollenWorkbookError, match="sharedStrings"),
        ):
            archive.open(STRINGS)
        return
    assert rows(open_source(path))[0] == [" C1 ", "Adélek&e", "_x000D_"]


def test_a_row_number_beyond_every_sheet_ends_the_reading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row said to be the two billionth does not bring two billion empty ones before it."""
    assert workbook.LAST_ROW == 1 << 20
    monkeypatch.setattr(workbook, "LAST_ROW", 1 << 12)
    path = repacked(
        tmp_path / "far.xlsx",
        lambda _, content: re.sub(rb'r="([ABC]?)4"', rb'r="\g<1>2000000000"', content),
    )
    with pytest.raises(InputError, match="beyond the last that a sheet can have"):
        rows(open_source(path))


@pytest.mark.parametrize(("at", "quoted"), [(1, True), (30_000, False)])
def test_a_zero_byte_refuses_its_row_wherever_it_stands(
    tmp_path: Path, at: int, *, quoted: bool
) -> None:
    """Early it does not refuse the file, late it does not reach the outputs."""
    path = tmp_path / "batch.csv"
    name = '"Ade"' if quoted else "Ade"
    lines = [f"C{n},2,{name}" for n in range(40_000)]
    lines[at] = lines[at].replace("Ade", "A\0de")
    path.write_text(HEADINGS + "\n".join(lines))
    ids, broken = rows(open_source(path))
    assert len(ids) == 39_999
    assert f"C{at}" not in ids
    assert [line for line, _ in broken] == [at + 2]
    assert "a zero byte" in broken[0][1]


def test_mixed_line_ends_lose_no_row(tmp_path: Path) -> None:
    """Carriage returns alone from the first line, from a later one, or from far down the file."""
    for switch in (0, 5, 30_000):
        path = tmp_path / "batch.csv"
        lines = [f"C{n},2,Ade" for n in range(60_000)]
        text = HEADINGS.strip() + ("\r" if switch == 0 else "\n")
        text += "\n".join(lines[:switch]) + ("\n" if switch else "") + "\r".join(lines[switch:])
        path.write_text(text, newline="")
        ids, broken = rows(open_source(path))
        assert len(ids) == 60_000, switch
        assert ids[-1] == "C59999", switch
        assert broken == [], switch


def test_a_line_without_end_refuses_itself_only(tmp_path: Path) -> None:
    """Sixteen megabytes without a line end are one broken row, and what follows goes on."""
    path = tmp_path / "batch.csv"
    path.write_text(HEADINGS + "C1,2,Ade\nC2,3," + "x" * (16 * MB) + "\nC3,4,Bola\n")
    tracemalloc.start()
    ids, broken = rows(open_source(path))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert ids == ["C1", "C3"]
    assert [line for line, _ in broken] == [3]
    assert peak < 80 * MB


def test_columns_without_number_are_refused_in_one_line(tmp_path: Path) -> None:
    """A file of 20,000 columns is no list of customers."""
    path = tmp_path / "batch.csv"
    path.write_text("customer_id," + ",".join(f"c{n}" for n in range(20_000)) + "\nC1\n")
    with pytest.raises(InputError, match="20001 columns, over 2000"):
        open_source(path)


def test_an_endless_heading_is_cut_wherever_it_is_shown(tmp_path: Path) -> None:
    """100 kB of heading are neither a column's name nor part of a message."""
    path = tmp_path / "batch.csv"
    path.write_text(f"{'x' * 100_000},bvn\nC1,2\n")
    with pytest.raises(InputError, match="no customer_id column") as caught:
        open_source(path)
    assert len(str(caught.value)) < 1000
    path.write_text(f"customer_id,{'x' * 100_000},{'x' * 100_000}\nC1,2,3\n")
    header = open_source(path).header
    assert all(len(column.output) < 200 for column in header.columns)
    assert len({column.output for column in header.columns}) == 3
    assert all(len(finding) < 1000 for finding in header.findings)
    assert "2 headings cut to 120 characters." in header.findings


MAPPINGS: list[tuple[str, str]] = [
    ("columns = " + "[" * 50_000, "nested too deeply"),
    ("x = " + "{a = " * 50_000, "nested too deeply"),
    ("date_order = " + "9" * 10_000, "not valid TOML"),
    ("x" * 600_000 + " = 1", "is no key of a mapping file"),
]


def test_a_hostile_mapping_is_one_line(tmp_path: Path) -> None:
    """Neither depth nor a number without end is an unexpected fault."""
    for content, words in MAPPINGS:
        path = tmp_path / "mapping.toml"
        path.write_text(content)
        with pytest.raises(SettingsError, match=words) as caught:
            read_mapping(path)
        assert len(str(caught.value)) < 1000, (content, words)
        assert "\n" not in str(caught.value), (content, words)


def test_a_mapping_without_end_is_not_read_to_its_end() -> None:
    """A device that never ends is refused after the first megabyte."""
    with pytest.raises(SettingsError, match="over 1 MB"):
        read_mapping(Path("/dev/zero"))


def test_marks_of_direction_are_no_part_of_a_value(tmp_path: Path) -> None:
    """A mark that turns writing round neither makes another customer nor hides a name's letters."""
    path = tmp_path / "batch.csv"
    path.write_text(
        "\u200fcustomer_id\u200e,bvn,first_name,last_name,branch\n"
        "\u202eC1\u202c,\u200f22212345678\u200e,\u202eAde\u202c,\u200eBello,Ikeja\n"
        "C1,22212345679,Bola,Ola,Ikeja\n"
    )
    source = open_source(path)
    batch = next(source.batches())
    judged = Intake(source.header).take(batch)
    assert judged.rows.column("customer_id").to_pylist() == ["C1"]
    assert judged.rows.column("bvn").to_pylist() == ["22212345678"]
    assert judged.rows.column("first_name").to_pylist() == ["Ade"]
    assert [row.code for row in judged.refused] == ["customer_id_repeated"]


def test_a_long_value_that_repeats_does_not_fill_the_memory(tmp_path: Path) -> None:
    """Parquet stores it once: a small file of a few rows would be gigabytes in memory."""
    path, number, megabytes = tmp_path / "repeats.parquet", 60, 12
    memo = pa.DictionaryArray.from_arrays(pa.array([0] * number), pa.array(["y" * megabytes * MB]))
    columns = {"customer_id": [f"C{each}" for each in range(number)], "memo": memo.cast("string")}
    pq.write_table(pa.table(columns), path)
    del memo, columns
    assert path.stat().st_size < 2 * MB
    pool = pa.default_memory_pool()
    idle, most = pool.bytes_allocated(), 0
    ids: list[str] = []
    for batch in open_source(path).batches():
        ids += batch.columns.column(0).to_pylist()
        most = max(most, batch.columns.num_rows)
        assert pool.bytes_allocated() - idle < 300 * MB
    assert ids == [f"C{each}" for each in range(number)]
    assert most == 2


def test_long_rows_of_text_come_in_small_batches(tmp_path: Path) -> None:
    """Thousands of them at once would not fit into the memory."""
    path, value = tmp_path / "long.csv", "y" * MB
    path.write_text(f"{HEADINGS}" + "".join(f"C{each},,{value}\n" for each in range(40)))
    found = [batch.columns.num_rows for batch in open_source(path).batches()]
    assert sum(found) == 40
    assert max(found) == 16
