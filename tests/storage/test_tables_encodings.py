"""Encodings: accented and hooked letters come out right, or the file is refused."""

from __future__ import annotations

import codecs
from pathlib import Path

from nightscreen.reading.open_file import open_source

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
