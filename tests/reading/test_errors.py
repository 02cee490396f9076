"""Files that cannot be read: one line each, that says what to do, and whose data it keeps."""

from __future__ import annotations

import gzip
import os
import zipfile
from pathlib import Path

import pytest

from nightscreen.reading.open_file import open_source
from nightscreen.schemas.errors import InputError

HEADINGS = b"customer_id,bvn,surname\n"
OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(512)


def refusal(path: Path) -> str:
    """Return the message of the error that opening a file gives; it is one line."""
    with pytest.raises(InputError) as caught:
        open_source(path)
    message = str(caught.value)
    assert "\n" not in message
    assert str(path) in message
    assert caught.value.exit_status == 2
    return message


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "the file is empty"),
        (b"\xef\xbb\xbf\r\n \n", "the file is empty"),
        (HEADINGS, "no rows below the headings"),
        (HEADINGS + b"\n,,\n", "no rows below the headings"),
        (b"%PDF-1.7 ...", "a PDF"),
        (b"<html><table>", "a web page or XML"),
        (b"PK\x03\x04 cut short", "the workbook is damaged"),
        (b"PAR1 cut short", "not a readable Parquet file"),
        (OLE, "protected by a password, or of the old kind (.xls)"),
        (b'[{"customer_id": 1}]', "JSON, which is not read"),
        (b'{"customer_id": 1}\n{"customer_id": 2}\n', "JSON, which is not read"),
        (b"\x00\x01\x02\x03binary\x00" * 9, "not a text file"),
        (gzip.compress(HEADINGS + b"C1,2,Ade\n"), "a compressed file: unpack it"),
        (HEADINGS + b"C1,2,Ol\xe9\nC2,3,\xc3\xa9\n", "letters in line 3 are neither"),
        (HEADINGS + b"C1,2,Andr\x82\n", "letters in line 2 are neither"),
        (HEADINGS + b"C1,2,\xcf\xf0\xe8\xe2\xe5\xf2\n", "letters in line 2 are neither"),
        (b"\xff\xfe" + "customer_id\nC1\n".encode("utf-16-le") + b"\x00", "damaged UTF-16-LE"),
        (b"\xef\xbb\xbf" + HEADINGS + b"C1,2,\xe9\n", "damaged UTF-8 text in line 2"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_each_unreadable_file_is_told_in_one_line(
    tmp_path: Path, content: bytes, words: str
) -> None:
    """Content decides, whatever the name says."""
    path = tmp_path / "batch.csv"
    path.write_bytes(content)
    assert words in refusal(path)


def test_a_folder_and_a_pipe_are_no_files(tmp_path: Path) -> None:
    """A folder is not searched; a pipe cannot be read twice; nor can what is not there."""
    assert "no such file; check the path" in refusal(tmp_path / "nowhere" / "batch.csv")
    assert "a folder, not a file" in refusal(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    assert "not a regular file" in refusal(tmp_path / "pipe")


def test_other_archives_are_told_from_workbooks(tmp_path: Path) -> None:
    """All of them begin with the same bytes."""
    path = tmp_path / "batch.xlsx"
    for member in ("customers.csv", "xl/workbook.bin", "word/document.xml"):
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr(member, "x")
        assert "an archive that is no workbook (.xlsx): unpack it" in refusal(path)


def test_no_customer_id_lists_the_headings_and_the_line_to_write(tmp_path: Path) -> None:
    path = tmp_path / "batch.csv"
    path.write_bytes(b"Custmer No,Surname,GSM\n1,Ade,0803\n")
    message = refusal(path)
    assert "no customer_id column; the headings are: Custmer No, Surname, GSM" in message
    assert '[columns] customer_id = "Their Heading"' in message


def test_a_file_without_headings_does_not_put_its_data_into_the_message(tmp_path: Path) -> None:
    """Where the first line is a customer, the customer is not quoted."""
    path = tmp_path / "batch.csv"
    path.write_bytes(b"C1,Adebayo,22212345678,08031234567\n")
    message = refusal(path)
    assert "does the file have a line of headings?" in message
    assert not any(word in message for word in ("Adebayo", "22212345678", "0803"))


def test_a_file_that_changes_or_goes_after_it_was_opened_is_told(tmp_path: Path) -> None:
    """What was understood of the old file is not applied to the new one."""
    path = tmp_path / "batch.csv"
    path.write_bytes(HEADINGS + b"C1,2,Ade\n")
    source = open_source(path)
    path.write_bytes(b"surname,customer_id,bvn\nAde,C1,2\n")
    with pytest.raises(InputError, match="changed while it was being read"):
        next(source.batches())
    path.unlink()
    with pytest.raises(InputError, match="no such file"):
        next(source.batches())
