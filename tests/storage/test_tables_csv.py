"""CSV files: values and lines come out as an editor shows them, whatever the damage."""

from __future__ import annotations

import csv
import io
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nightscreen.reading.open_file import TableSource, open_source
from tests.how_many import examples

if TYPE_CHECKING:
    from nightscreen.schemas.rows import RefusedRow

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


def test_text_stays_text(tmp_path: Path) -> None:
    """Leading zeros, exponents, NA and blanks come through as they are written."""
    path = save(tmp_path, "customer_id,bvn,note\n007,00123,NA\n1E5, x ,\n")
    lines, values, broken = read(open_source(path))
    assert values == [["007", "00123", "NA"], ["1E5", " x ", ""]]
    assert (lines, broken) == ([2, 3], [])


def test_a_long_value_is_no_damage(tmp_path: Path) -> None:
    """Between quotes too, on one line or over several."""
    long = "x" * 300_000 + "\n" + "y" * 300_000
    path = save(tmp_path, f'customer_id,note\nC1,"{long}"\nC2,z\n')
    lines, values, broken = read(open_source(path))
    assert values == [["C1", long], ["C2", "z"]]
    assert (lines, broken) == ([2, 4], [])


def test_lines_are_right_after_quoted_line_ends_blank_and_bad_rows(tmp_path: Path) -> None:
    """Each row is found at its line of the file, as an editor numbers it."""
    text = 'customer_id,bvn\nC1,"a\nb"\n\nC2\nC3,1,2\nC4,x\n,\nC5,"p\r\nq"\nC6,z'
    lines, values, broken = read(open_source(save(tmp_path, text)))
    assert lines == [2, 7, 9, 11]
    assert values == [["C1", "a\nb"], ["C4", "x"], ["C5", "p\r\nq"], ["C6", "z"]]
    assert [(row.line, row.code, row.values) for row in broken] == [
        (5, "broken", ("C2", None)),
        (6, "broken", ("C3", "1,2")),
    ]


@pytest.mark.parametrize("quoted", ["", '"'])
def test_rows_of_separators_alone_are_blank_rows(tmp_path: Path, quoted: str) -> None:
    """Whatever their number; spreadsheets leave them at the end."""
    text = f"customer_id,bvn\nC1,{quoted}\n{quoted}\n,,,,\n , \n,\n"
    lines, _, broken = read(open_source(save(tmp_path, text)))
    assert (lines, [row.line for row in broken]) == ([2], [])


def test_a_stray_quote_breaks_its_own_line_only(tmp_path: Path) -> None:
    """A quote that opens and never closes does not swallow the rows below."""
    rows = "".join(f"C{n},Ade,{n}\n" for n in range(3, 400))
    text = f'customer_id,surname,bvn\nC1,Oke,1\nC2,"Bola,2\n{rows}'
    lines, values, broken = read(open_source(save(tmp_path, text)))
    assert [row.line for row in broken] == [3]
    assert lines == [2, *range(4, 401)]
    assert values[-1] == ["C399", "Ade", "399"]


def test_a_stray_quote_before_a_quoted_row_does_not_merge_the_two(tmp_path: Path) -> None:
    """Where the next quote is in another row, both rows keep to themselves."""
    text = 'customer_id,surname,bvn\nC1,"Ade,1\nC2,"Bola",2\nC3,Uche,3\n'
    lines, values, broken = read(open_source(save(tmp_path, text)))
    assert [row.line for row in broken] == [2]
    assert lines == [3, 4]
    assert values == [["C2", "Bola", "2"], ["C3", "Uche", "3"]]


def test_a_bad_record_over_two_lines_is_one_broken_row(tmp_path: Path) -> None:
    """Its second line is not taken for a row of its own."""
    text = 'customer_id,surname,bvn\nC1,"two\nlines",1,EXTRA\nC2,"Ade" B,"x\ny"\nC3,Uche,3\n'
    lines, _, broken = read(open_source(save(tmp_path, text)))
    assert [row.line for row in broken] == [2, 4]
    assert lines == [6]


def test_a_quote_inside_a_value_is_a_letter(tmp_path: Path) -> None:
    """Only a quote at the beginning of a value opens one."""
    _, values, broken = read(open_source(save(tmp_path, 'customer_id,note\nC1,5" pipe\nC2,x\n')))
    assert values == [["C1", '5" pipe'], ["C2", "x"]]
    assert not broken


def test_a_lone_carriage_return_breaks_its_row(tmp_path: Path) -> None:
    """It is not taken for the end of a row, nor is it dropped."""
    lines, _, broken = read(open_source(save(tmp_path, "customer_id,bvn\nC1,a\rb\nC2,x\n")))
    assert (lines, [row.line for row in broken]) == ([3], [2])


@pytest.mark.parametrize(
    ("separator", "word"), [(";", "semicolon"), ("\t", "tab"), ("|", "vertical bar")]
)
def test_other_separators_are_found_and_told(tmp_path: Path, separator: str, word: str) -> None:
    """The separator is the one under which the headings are known."""
    text = "Customer ID,Surname,Outstanding\nC1,Ade,5\n".replace(",", separator)
    source = open_source(save(tmp_path, text, "batch.txt"))
    assert read(source)[1] == [["C1", "Ade", "5"]]
    assert source.header.findings[0] == f"Columns are separated by {word}s."


def test_commas_in_values_do_not_hide_semicolons(tmp_path: Path) -> None:
    """Amounts with commas are no reason to split at commas."""
    source = open_source(save(tmp_path, "customer_id;exposure\nC1;1,250,000.00\n"))
    assert read(source)[1] == [["C1", "1,250,000.00"]]


def test_the_separator_line_of_a_spreadsheet_is_left_out(tmp_path: Path) -> None:
    """`sep=;` is a hint for spreadsheets and no heading."""
    source = open_source(save(tmp_path, "sep=;\ncustomer_id;bvn\nC1;2\n"))
    assert read(source)[:2] == ([3], [["C1", "2"]])


def test_title_rows_above_the_headings_are_left_out_and_told(tmp_path: Path) -> None:
    """The headings are the row with most known words."""
    text = 'Acme MFB\n"As of\nJune"\n\nCust No,Surname,GSM\nC1,Ade,0803\n'
    source = open_source(save(tmp_path, text))
    assert read(source)[:2] == ([6], [["C1", "Ade", "0803"]])
    assert "found in line 5" in source.header.findings[0]


def test_values_that_are_heading_words_are_no_headings(tmp_path: Path) -> None:
    """No row is taken for the headings, and all above it lost, for words that it holds."""
    text = "customer_id,kind,via,product\nC1,a,b,c\nC2,Mobile,Bank,Balance\n"
    assert read(open_source(save(tmp_path, text)))[0] == [2, 3]


def test_a_separator_at_the_end_of_every_row_is_a_blank_column(tmp_path: Path) -> None:
    """Rows are not refused for a trailing separator that the headings lack."""
    source = open_source(save(tmp_path, "customer_id,bvn\nC1,2,\nC2,3,\nC4,4,\n"))
    assert [column.heading for column in source.header.columns] == [
        "customer_id", "bvn", "column_3",
    ]  # fmt: skip
    assert read(source)[1][0] == ["C1", "2", ""]


def test_old_line_ends_are_read_and_told(tmp_path: Path) -> None:
    """A file with carriage returns alone has rows all the same."""
    source = open_source(save(tmp_path, "customer_id,bvn\rC1,2\rC2,3\r"))
    assert read(source)[:2] == ([2, 3], [["C1", "2"], ["C2", "3"]])
    assert "carriage return" in source.header.findings[0]


def test_batches_are_full_and_can_be_read_again(tmp_path: Path) -> None:
    """Only the last batch is smaller, broken rows count, and a second reading is the same."""
    rows = "".join(f"C{n},{n}\n" if n % 10 else f"C{n}\n" for n in range(1, 101))
    source = open_source(save(tmp_path, f"customer_id,bvn\n{rows}"))
    sizes = [batch.columns.num_rows + len(batch.broken) for batch in source.batches(30)]
    assert sizes == [30, 30, 30, 10]
    assert read(source) == read(source, 7)


def test_batches_keep_the_order_of_lines(tmp_path: Path) -> None:
    """No line of a batch, broken or not, comes before a line of an earlier batch."""
    rows = "".join(f"C{n},{n}\n" if n % 3 else f"C{n}\n" for n in range(1, 101))
    source = open_source(save(tmp_path, f"customer_id,bvn\n{rows}"))
    seen: list[int] = []
    for batch in source.batches(7):
        seen += sorted([*batch.lines, *(row.line for row in batch.broken)])
    assert seen == list(range(2, 102))


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
@given(
    text=st.text(alphabet='ab,"\n\r', max_size=120),
)
def test_damaged_text_loses_no_row_around_it(text: str) -> None:
    """Rows above damage are read as ever, and lines never go backwards."""
    with tempfile.TemporaryDirectory() as folder:
        path = save(Path(folder), f"customer_id,note\nC1,first\n{text}")
        source = open_source(path)
        lines, values, broken = read(source)
    assert (lines[0], values[0]) == (2, ["C1", "first"])
    both = [*lines, *(row.line for row in broken)]
    assert len(set(both)) == len(both)
    assert lines == sorted(lines)
