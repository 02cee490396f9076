"""Measure the size of the journal, and the cost of hostile files.

    python -m benchmarks.sizes journal [--rows N]
    python -m benchmarks.sizes hostile [--seed N] [--limit MB] [--only WORD]

`journal`: bytes per answer, and milliseconds to open, after a first night with N rows. `hostile`:
peak memory, CPU and message for each file. Files are made with a seed and given to `nightscreen
inspect` and `nightscreen screen --quote-only`, each in its own process with limited address space.
A file passes if its other rows are screened, or one line refuses it, and no process dies of the
limit.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import sys
import tempfile
import time
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import openpyxl

from benchmarks.measured import run_words
from benchmarks.night import nights
from nightscreen.journal import open_journal

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

MB: Final = 1 << 20
LIMIT_MB: Final = 4096
"""Address space; the libraries alone reserve two gigabytes."""
ROWS: Final = 2000
HEADINGS: Final = "customer_id,bvn,first_name,last_name,phone"


@dataclass(frozen=True, slots=True)
class Hostile:
    """One kind of file.

    Attributes:
        name: the kind's name, for the table.
        file: its name on disk.
        make: writes it, given its path and a random generator.
        mapping: writes a mapping file for it, given a folder, and returns its path.
    """

    name: str
    file: str
    make: Callable[[Path, random.Random], None]
    mapping: Callable[[Path], Path] | None = None


def lines(draw: random.Random, number: int = ROWS) -> list[str]:
    """Return rows of fictional customers."""
    names = ("Ade", "Bola", "Chidi", "Dayo", "Emeka", "Funmi", "Halima", "Ifeoma")
    return [
        f"C{each},222{draw.randrange(10**8):08},{draw.choice(names)},{draw.choice(names)}son,"
        f"+23480{draw.randrange(10**8):08}"
        for each in range(1, number + 1)
    ]


def _text(path: Path, rows: Sequence[str], *, encoding: str = "utf-8", end: str = "\n") -> None:
    path.write_bytes(end.join([HEADINGS, *rows, ""]).encode(encoding))


def _workbook(path: Path, rows: Sequence[str], *, cover: bool = False) -> None:
    book = openpyxl.Workbook(write_only=True)
    if cover:
        sheet = book.create_sheet("Cover")
        for title in ("Loan book", "Prepared by,Risk", "As at,2026-01-31"):
            sheet.append(title.split(","))
    sheet = book.create_sheet("Data")
    for row in (HEADINGS, *rows):
        sheet.append(row.split(","))
    book.save(path)


def _swollen(
    path: Path, rows: Sequence[str], part: str, at: bytes, filling: bytes, megabytes: int = 1024
) -> None:
    """Write a workbook with one part that unpacks to `megabytes` of repeated `filling`."""
    plain = path.with_suffix(".plain")
    _workbook(plain, rows)
    with (
        zipfile.ZipFile(plain) as source,
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as target,
    ):
        for each in source.infolist():
            content = source.read(each)
            if each.filename != part:
                target.writestr(each, content)
                continue
            before, _, after = content.partition(at)
            with target.open(part, "w", force_zip64=True) as out:
                out.write(before + at)
                block = filling * (MB // len(filling))
                for _ in range(megabytes):
                    out.write(block)
                out.write(after)
    plain.unlink()


def swollen_cell(path: Path, draw: random.Random) -> None:
    """A cell of a gigabyte in an archive of a few megabytes."""
    rows = lines(draw)
    rows[7] = rows[7].replace(",+", ",SWOLLEN+")
    filling = b"".join(bytes([draw.randrange(97, 123)]) for _ in range(1024))
    _swollen(path, rows, "xl/worksheets/sheet1.xml", b"SWOLLEN", filling)


def swollen_row(path: Path, draw: random.Random) -> None:
    """A row of a gigabyte of empty cells."""
    _swollen(path, lines(draw), "xl/worksheets/sheet1.xml", b"<row", b" ")


def empty_rows(path: Path, draw: random.Random) -> None:
    """64 MB of rows without a cell."""
    sheet = "xl/worksheets/sheet1.xml"
    _swollen(path, lines(draw), sheet, b"<sheetData>", b'<row r="1"/>', 64)


def formats(path: Path, draw: random.Random) -> None:
    """Some 200,000 formats of a cell."""
    part = "xl/styles.xml"
    _swollen(path, lines(draw), part, b'<cellXfs count="1">', b'<xf numFmtId="0"/>', 4)


def sheet_names(path: Path, draw: random.Random) -> None:
    """Thousands of names for one sheet."""
    part = "xl/workbook.xml"
    _swollen(path, lines(draw), part, b"<sheets>", b'<sheet name="a" sheetId="9"/>', 1)


def swollen_texts(path: Path, draw: random.Random) -> None:
    """A table of texts of a gigabyte."""
    plain = path.with_suffix(".plain")
    _workbook(plain, lines(draw, 20))
    with (
        zipfile.ZipFile(plain) as source,
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as target,
    ):
        for each in source.infolist():
            content = source.read(each)
            if each.filename == "[Content_Types].xml":
                kind = b"application/vnd.openxmlformats-officedocument.spreadsheetml.sharedStrings"
                override = (
                    b'<Override PartName="/xl/sharedStrings.xml" ContentType="%s+xml"/>' % kind
                )
                content = content.replace(b"</Types>", override + b"</Types>")
            target.writestr(each, content)
        with target.open("xl/sharedStrings.xml", "w", force_zip64=True) as out:
            out.write(b'<sst xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main">')
            for _ in range(1024):
                out.write(b"<si><t>Ade</t></si>" * (MB // 19))
            out.write(b"</sst>")
    plain.unlink()


def zero_byte(at: int) -> Callable[[Path, random.Random], None]:
    """Return a function that writes a file with a zero byte in one row."""

    def make(path: Path, draw: random.Random) -> None:
        rows = lines(draw)
        rows[at] = rows[at].replace("son", "s\0on")
        _text(path, rows)

    return make


def mixed_ends(path: Path, draw: random.Random) -> None:
    """Lines with three kinds of line ends."""
    ends = [draw.choice(("\n", "\r\n", "\r")) for _ in range(ROWS + 1)]
    rows = zip((HEADINGS, *lines(draw)), ends, strict=True)
    path.write_bytes("".join(row + end for row, end in rows).encode())


def long_heading(path: Path, draw: random.Random) -> None:
    """A heading of 300 kB next to the known ones."""
    heading = "".join(draw.choice("abcdefgh ") for _ in range(300_000))
    rows = [f"{row},x" for row in lines(draw)]
    path.write_text("\n".join([f"{HEADINGS},{heading}", *rows]) + "\n")


def long_line(path: Path, draw: random.Random) -> None:
    """One value of 200 MB without a line end."""
    rows = lines(draw)
    with path.open("w") as out:
        out.write("\n".join([HEADINGS, *rows[:1000]]) + "\n" + rows[1000])
        for _ in range(200):
            out.write(draw.choice("xyz") * MB)
        out.write("\n" + "\n".join(rows[1001:]) + "\n")


def marks(path: Path, draw: random.Random) -> None:
    """Direction marks around headings and values; without them, one customer is there twice."""
    rows = [row.replace(",", "\u200f,\u200e") for row in lines(draw)]
    rows[1] = "\u202eC1\u202c" + rows[1][rows[1].index("\u200f") :]
    path.write_text("\n".join(["\u200f" + HEADINGS, *rows]) + "\n", "utf-8")


def deep_mapping(folder: Path) -> Path:
    """Write a mapping nested 50,000 deep."""
    path = folder / "deep.toml"
    path.write_text("columns = " + "[" * 50_000)
    return path


def _plain(path: Path, draw: random.Random) -> None:
    _text(path, lines(draw))


HOSTILE: Final = (
    Hostile("nothing wrong, to compare", "plain.csv", _plain),
    Hostile("one cell of 1 GB", "cell.xlsx", swollen_cell),
    Hostile("one row of 1 GB", "row.xlsx", swollen_row),
    Hostile("table of texts of 1 GB", "texts.xlsx", swollen_texts),
    Hostile("64 MB of empty rows", "empty.xlsx", empty_rows),
    Hostile("200,000 formats of cells", "formats.xlsx", formats),
    Hostile("thousands of names for one sheet", "names.xlsx", sheet_names),
    Hostile(
        "cover sheet before the data", "cover.xlsx", lambda p, d: _workbook(p, lines(d), cover=True)
    ),
    Hostile("zero byte, early", "zero-early.csv", zero_byte(1)),
    Hostile("zero byte, late", "zero-late.csv", zero_byte(ROWS - 2)),
    Hostile("UTF-32-BE", "wide.csv", lambda p, d: _text(p, lines(d), encoding="utf-32-be")),
    Hostile("mixed line ends", "ends.csv", mixed_ends),
    Hostile("a value of 200 MB", "line.csv", long_line),
    Hostile("a heading of 300 kB", "heading.csv", long_heading),
    Hostile("marks of direction", "marks.csv", marks),
    Hostile("`--mapping /dev/zero`", "endless.csv", _plain, lambda _: Path("/dev/zero")),
    Hostile("mapping nested 50,000 deep", "deep.csv", _plain, deep_mapping),
)


@dataclass(frozen=True, slots=True)
class Ended:
    """The result of a process: status, peak memory, CPU seconds, stdout and stderr."""

    status: int
    peak_mb: float
    cpu_s: float
    out: str
    err: str


def run(words: Sequence[str], folder: Path, limit_mb: int) -> Ended:
    """Run a command of nightscreen in its own process, with limited address space."""
    out, err = folder / "out.txt", folder / "err.txt"
    child = os.fork()
    if child == 0:
        resource.setrlimit(resource.RLIMIT_AS, (limit_mb * MB, limit_mb * MB))
        for number, path in ((1, out), (2, err)):
            os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), number)
        settings = {"NIGHTSCREEN_HOME": str(folder / "home"), "COLUMNS": "400"}
        settings |= {"NIGHTSCREEN_BASE_URL": "http://127.0.0.1:9", "NIGHTSCREEN_API_KEY": "none"}
        command = [sys.executable, "-m", "nightscreen.cli", *words]
        os.execve(sys.executable, command, {**os.environ, **settings})  # noqa: S606 - no shell wanted
    _, status, used = os.wait4(child, 0)
    return Ended(
        os.waitstatus_to_exitcode(status),
        used.ru_maxrss / 1024,
        used.ru_utime + used.ru_stime,
        out.read_text("utf-8", "replace"),
        err.read_text("utf-8", "replace").strip(),
    )


def message(inspected: Ended, folder: Path) -> str:
    """Return the line of the table about a file: its error, or its rows and first findings."""
    document = json.loads(inspected.out or "{}")
    if "rows" not in document:
        written = inspected.err.splitlines() or ["(nothing)"]
        return str(document.get("error", written[-1])).replace(f"{folder}/", "").replace("|", "/")
    rows = document["rows"]
    hints = [
        f"line {each['line']}: {each['hint']}"
        for each in document["problems"]
        if each["action"] == "refused"
    ]
    findings = "; ".join([*document["findings"], *hints][:2])
    return f"{rows['screened']:,} of {rows['read']:,} rows go on. {findings}".replace("|", "/")


def hostile(seed: int, limit_mb: int, only: str) -> None:
    """Print the table of hostile files."""
    print("| file | size | inspect: MB, CPU s | quote: MB, CPU s | status | message |")
    print("|---|---|---|---|---|---|")
    for each in HOSTILE:
        if only not in each.name:
            continue
        with tempfile.TemporaryDirectory() as made:
            folder = Path(made)
            path = folder / each.file
            each.make(path, random.Random(seed))
            words = [str(path)]
            if each.mapping is not None:
                words += ["--mapping", str(each.mapping(folder))]
            size = path.stat().st_size
            looked = run(["inspect", *words, "--json"], folder, limit_mb)
            quoted = run(["screen", *words, "--quote-only", "--json"], folder, limit_mb)
            text = message(looked, folder)
            assert looked.status == quoted.status, (looked, quoted)
            figures = " | ".join(f"{one.peak_mb:.0f}, {one.cpu_s:.1f}" for one in (looked, quoted))
            print(
                f"| {each.name} | {size / 1000:,.0f} kB | {figures} | {looked.status} | {text} |",
                flush=True,
            )


def journal(rows: int) -> None:
    """Print the size of a journal after one night, and the time to open it."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        answers = nights(rows, folder)["first"]["lookups"]
        home = folder / "home"
        size = sum(each.stat().st_size for each in home.rglob("*") if each.is_file())
        begun = time.perf_counter()
        open_journal(home).close()
        opened_ms = 1000 * (time.perf_counter() - begun)
    print("| rows | answers | MB | bytes an answer | opened in, ms |\n|---|---|---|---|---|")
    print(
        f"| {rows:,} | {answers:,} | {size / 1e6:.1f} | {size / answers:,.0f} | {opened_ms:.0f} |"
    )


def main() -> None:
    """Print the chosen table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("journal", "hostile"))
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--limit", type=int, default=LIMIT_MB, help="MB of address space")
    parser.add_argument("--only", default="", help="only files with this text in their name")
    given = parser.parse_args()
    print(f"{run_words()}\n")
    if given.what == "journal":
        journal(given.rows)
    else:
        hostile(given.seed, given.limit, given.only)


if __name__ == "__main__":
    main()
