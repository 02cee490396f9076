"""CSV files: values and lines come out as an editor shows them, whatever the damage."""

from __future__ import annotations

import codecs
import csv
import io
import tempfile
from collections import Counter
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from nightscreen.reading.open_file import TableSource, open_source
from nightscreen.schemas.rows import RefusedRow
from tests.how_many import examples

CELLS = st.text(
    st.characters(codec="utf-8", exclude_characters="\0"), max_size=12
) | st.sampled_from(['a"b', "x,y", "two\nlines", "cr\r\nlf", '"', "", " ", "\u2028", "0803"])


def save(folder: Path, text: str, name: str = "batch.csv") -> Path:
    """Write text as it stands, line ends included."""
    path = folder / name
    path.write_bytes(text.encode())
    return path


def read(
    source: TableSource, rows: int = 8192
) -> tuple[list[int], list[list[str]], list[RefusedRow]]:
    """Return lines, values and broken rows of a whole file."""
    lines: list[int] = []
    values: list[list[str]] = []
    broken: list[RefusedRow] = []
    for batch in source.batches(rows):
        lines += batch.lines
        values += [list(row.values()) for row in batch.columns.to_pylist()]
        broken += batch.broken
    return lines, values, broken


LONG = "x" * 300_000 + "\n" + "y" * 300_000
MANY = range(3, 400)
AS_WRITTEN = {
    "text stays text, exponents, NA and blanks too": (
        "customer_id,bvn,note\n007,00123,NA\n1E5, x ,\n",
        {2: ["007", "00123", "NA"], 3: ["1E5", " x ", ""]},
        [],
    ),
    "a long value is no damage": (
        f'customer_id,note\nC1,"{LONG}"\nC2,z\n',
        {2: ["C1", LONG], 4: ["C2", "z"]},
        [],
    ),
    "lines are right after quoted line ends, blank and bad rows": (
        'customer_id,bvn\nC1,"a\nb"\n\nC2\nC3,1,2\nC4,x\n,\nC5,"p\r\nq"\nC6,z',
        {2: ["C1", "a\nb"], 7: ["C4", "x"], 9: ["C5", "p\r\nq"], 11: ["C6", "z"]},
        [(5, ("C2", None)), (6, ("C3", "1,2"))],
    ),
    "rows of separators alone are blank, whatever their number": (
        "customer_id,bvn\nC1,\n\n,,,,\n , \n,\n",
        {2: ["C1", ""]},
        [],
    ),
    "so are rows of quotes alone": (
        'customer_id,bvn\nC1,"\n"\n,,,,\n , \n,\n',
        {2: ["C1", "\n"]},
        [],
    ),
    "a stray quote breaks its own line only": (
        'customer_id,surname,bvn\nC1,Oke,1\nC2,"Bola,2\n'
        + "".join(f"C{n},Ade,{n}\n" for n in MANY),
        {2: ["C1", "Oke", "1"]} | {n + 1: [f"C{n}", "Ade", f"{n}"] for n in MANY},
        [(3, ("C2", "Bola,2", None))],
    ),
    "a stray quote before a quoted row does not merge the two": (
        'customer_id,surname,bvn\nC1,"Ade,1\nC2,"Bola",2\nC3,Uche,3\n',
        {3: ["C2", "Bola", "2"], 4: ["C3", "Uche", "3"]},
        [(2, ("C1", "Ade,1", None))],
    ),
    "a bad record over two lines is one broken row": (
        'customer_id,surname,bvn\nC1,"two\nlines",1,EXTRA\nC2,"Ade" B,"x\ny"\nC3,Uche,3\n',
        {6: ["C3", "Uche", "3"]},
        [(2, ("C1", "two\nlines", "1,EXTRA")), (4, ("C2", "Ade B", "x\ny"))],
    ),
    "only a quote at the beginning of a value opens one": (
        'customer_id,note\nC1,5" pipe\nC2,x\n',
        {2: ["C1", '5" pipe'], 3: ["C2", "x"]},
        [],
    ),
    "a lone carriage return breaks its row": (
        "customer_id,bvn\nC1,a\rb\nC2,x\n",
        {3: ["C2", "x"]},
        [(2, ("C1", "a\rb"))],
    ),
    "amounts with commas are no reason to split at commas": (
        "customer_id;exposure\nC1;1,250,000.00\n",
        {2: ["C1", "1,250,000.00"]},
        [],
    ),
    "a separator line of a spreadsheet is no heading": (
        "sep=;\ncustomer_id;bvn\nC1;2\n",
        {3: ["C1", "2"]},
        [],
    ),
    "values that are heading words are no headings": (
        "customer_id,kind,via,product\nC1,a,b,c\nC2,Mobile,Bank,Balance\n",
        {2: ["C1", "a", "b", "c"], 3: ["C2", "Mobile", "Bank", "Balance"]},
        [],
    ),
    "a separator at the end of every row is a blank column": (
        "customer_id,bvn\nC1,2,\nC2,3,\n",
        {2: ["C1", "2", ""], 3: ["C2", "3", ""]},
        [],
    ),
}
"""Texts, the values of their rows by line, and line and values of each broken row."""


@pytest.mark.parametrize("case", AS_WRITTEN)
def test_rows_are_those_that_an_editor_shows(tmp_path: Path, case: str) -> None:
    """Each at its line, and the damage at its own."""
    text, rows, damaged = AS_WRITTEN[case]
    lines, values, broken = read(open_source(save(tmp_path, text)))
    assert dict(zip(lines, values, strict=True)) == rows
    assert [(row.line, row.values) for row in broken] == damaged
    assert {row.code for row in broken} <= {"broken"}


@pytest.mark.parametrize(
    ("separator", "word"), [(";", "semicolon"), ("\t", "tab"), ("|", "vertical bar")]
)
def test_other_separators_are_found_and_told(tmp_path: Path, separator: str, word: str) -> None:
    """The separator is the one under which the headings are known."""
    text = "Customer ID,Surname,Outstanding\nC1,Ade,5\n".replace(",", separator)
    source = open_source(save(tmp_path, text, "batch.txt"))
    assert read(source)[1] == [["C1", "Ade", "5"]]
    assert source.header.findings[0] == f"Columns are separated by {word}s."


def test_title_rows_above_the_headings_are_left_out_and_told(tmp_path: Path) -> None:
    """The headings are the row with most known words."""
    text = 'Acme MFB\n"As of\nJune"\n\nCust No,Surname,GSM\nC1,Ade,0803\n'
    source = open_source(save(tmp_path, text))
    assert read(source)[:2] == ([6], [["C1", "Ade", "0803"]])
    assert "found in line 5" in source.header.findings[0]


def test_old_line_ends_are_read_and_told(tmp_path: Path) -> None:
    """A file with carriage returns alone has rows all the same."""
    source = open_source(save(tmp_path, "customer_id,bvn\rC1,2\rC2,3\r"))
    assert read(source)[:2] == ([2, 3], [["C1", "2"], ["C2", "3"]])
    assert "carriage return" in source.header.findings[0]


@settings(deadline=None, max_examples=examples(150))
@given(
    rows=st.lists(st.tuples(CELLS, CELLS, CELLS), min_size=1, max_size=25),
    style=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
    ends=st.sampled_from(["\n", "\r\n"]),
    size=st.sampled_from([1, 3, 1000]),
)
def test_any_text_comes_back_with_its_line(
    rows: list[tuple[str, str, str]], style: Literal[0, 1], ends: str, size: int
) -> None:
    """What a CSV writer wrote is read back exactly, however batches are cut."""
    out = io.StringIO()
    plain = csv.writer(out, quoting=style, lineterminator=ends)
    quoted = csv.writer(out, quoting=csv.QUOTE_ALL, lineterminator=ends)
    plain.writerow(["customer_id", "note", "more"])
    expected: list[tuple[int, list[str]]] = []
    for row in rows:
        line = out.getvalue().count("\n") + 1
        writer = quoted if "\r" in "".join(row) else plain  # which a plain writer leaves bare
        writer.writerow(row)
        if any(cell.strip(" \t\r\n") for cell in row):
            expected.append((line, list(row)))
    with tempfile.TemporaryDirectory() as folder:
        path = save(Path(folder), out.getvalue() + f"last,,{ends}")
        source = open_source(path)
        lines, values, broken = read(source, size)
    kept = [
        (line, row) for line, row in zip(lines, values, strict=True) if any(map(str.strip, row))
    ]
    assert not broken
    assert kept[:-1] == [each for each in expected if any(map(str.strip, each[1]))]


@settings(deadline=None, max_examples=examples(100))
@given(text=st.text(alphabet='ab,"\n\r', max_size=120))
@example(text="a,\ra,")
def test_damaged_text_loses_no_row_around_it(text: str) -> None:
    """Rows above damage are read as ever, and lines never go backwards.

    Only rows that carriage returns separate within a line have its number together.
    """
    whole = f"customer_id,note\nC1,first\n{text}"
    with tempfile.TemporaryDirectory() as folder:
        source = open_source(save(Path(folder), whole))
        lines, values, broken = read(source)
    assert (lines[0], values[0]) == (2, ["C1", "first"])
    numbers = Counter([*lines, *(row.line for row in broken)])
    shared = [whole.split("\n")[number - 1] for number, rows in numbers.items() if rows > 1]
    assert all("\r" in line.strip("\r") for line in shared)
    assert lines == sorted(lines)


TEXT = "customer_id,surname\nC1,Ɓala\nC2,Ọlá\n"


FORMS: list[tuple[str, bytes, str]] = [
    ("utf-8", b"", ""),
    ("utf-8", b"\xef\xbb\xbf", ""),
    ("utf-16-le", b"\xff\xfe", "UTF-16-LE text."),
    ("utf-16-be", b"\xfe\xff", "UTF-16-BE text."),
    ("utf-16-le", b"", "without a byte order mark"),
    ("utf-16-be", b"", "without a byte order mark"),
    ("utf-32-le", codecs.BOM_UTF32_LE, "UTF-32-LE text."),
    ("utf-32-be", codecs.BOM_UTF32_BE, "UTF-32-BE text."),
    ("utf-32-le", b"", "without a byte order mark"),
    ("utf-32-be", b"", "without a byte order mark"),
]


def test_unicode_is_read_in_every_form(tmp_path: Path) -> None:
    """A mark is no part of the first heading."""
    path = tmp_path / "batch.csv"
    for encoding, mark, finding in FORMS:
        path.write_bytes(mark + TEXT.encode(encoding))
        source = open_source(path)
        columns = [batch.columns.column("surname").to_pylist() for batch in source.batches()]
        assert columns == [["Ɓala", "Ọlá"]], encoding
        assert source.header.columns[0].heading == "customer_id", encoding
        assert [finding in each for each in source.header.findings] == [True] * bool(finding), mark


def test_windows_text_is_read_and_told_with_its_first_line(tmp_path: Path) -> None:
    """Where nothing speaks against Windows-1252 it is read as such, and the analyst is reported."""
    path = tmp_path / "batch.csv"
    path.write_bytes("customer_id,surname\nC1,Ade\nC2,Renée\nC3,O€Neil\n".encode("windows-1252"))
    source = open_source(path)
    assert next(source.batches()).columns.column("surname").to_pylist() == [
        "Ade",
        "Renée",
        "O€Neil",
    ]
    assert "Windows-1252 text, not UTF-8; 2 line(s)" in source.header.findings[0]
    assert "the first is line 3" in source.header.findings[0]


def test_a_late_letter_settles_the_encoding_of_the_whole_file(tmp_path: Path) -> None:
    """Not the beginning of a file decides but all of it."""
    path = tmp_path / "batch.csv"
    rows = b"".join(b"C%d,Ade\n" % number for number in range(60_000))
    path.write_bytes(b"customer_id,surname\n" + rows + b"last,Ren\xe9e\n")
    source = open_source(path)
    assert "first is line 60002" in source.header.findings[0]
    assert [*source.batches()][-1].columns.column("surname")[-1].as_py() == "Renée"


def test_letters_that_were_garbled_before_are_told(tmp_path: Path) -> None:
    """They cannot be put right here, but the analyst learns of them; no name is repeated."""
    for name in ("RenÃ©e", "Oâ€™Neil", "Ren\ufffde"):
        path = tmp_path / "batch.csv"
        path.write_text(f"customer_id,surname\nC1,{name}\n", encoding="utf-8")
        (finding,) = open_source(path).header.findings
        assert finding.startswith("Some letters look garbled"), name
        assert name not in finding, name
