"""The order of consent dates that a file leaves open: asked at a terminal, and waited for."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from nightscreen.journal import open_journal
from tests.cli.command import COMMAND, SERVICE, Ended, nightscreen, surroundings
from tests.screening import consented_on

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="a terminal of its own")

OPEN, SHOWN = (f"{day:%d/%m/%Y}" for day in consented_on())
PATIENCE_S = 60


@pytest.fixture
def book(tmp_path: Path) -> Path:
    """A file whose dates of consent have two readings."""
    return write(tmp_path, OPEN)


def write(folder: Path, *dates: str) -> Path:
    """Write a file with one customer a date."""
    rows = [f"C{n},22000000{n:03d},R-{n},{cell}" for n, cell in enumerate(dates, 1)]
    path = folder / "book.csv"
    head = "customer_id,bvn,consent_reference,consented_at"
    path.write_text("\n".join([head, *rows]) + "\n", encoding="utf-8")
    return path


def typed(folder: Path, *words: str, answers: str) -> Ended:
    """Type a command at a terminal, and answers to what it asks."""
    ours, theirs = os.openpty()
    env = surroundings(folder, **SERVICE)
    with subprocess.Popen(
        [COMMAND, *words], cwd=folder, env=env, stdin=theirs, stdout=subprocess.PIPE, stderr=theirs
    ) as running:
        os.close(theirs)
        os.write(ours, answers.encode())
        out = running.communicate(timeout=PATIENCE_S)[0].decode()
        said = b""
        while piece := read(ours):
            said += piece
    os.close(ours)
    return Ended(running.returncode, out, said.decode())


def read(terminal: int) -> bytes:
    """Return what stands at a terminal; nothing once whoever wrote has gone."""
    try:
        return os.read(terminal, 4096)
    except OSError:
        return b""


def last_answer(folder: Path) -> str:
    """Return what was answered last for the batch."""
    with open_journal(folder / ".nightscreen") as journal:
        return journal.runs.date_order("book")


@pytest.mark.parametrize("answers", ["d\n", "perhaps\n\nmdy\n"])
def test_a_quote_asks_and_waits_for_an_answer_that_it_understands(book: Path, answers: str) -> None:
    """The question has an example from the file; the answer is kept for the batch."""
    ended = typed(book.parent, "quote", str(book), "--json", answers=answers)
    assert (ended.status, OPEN in ended.err) == (0, True)
    counts = ended.document["checks"]["ecosystem"]
    assert (counts["lookups"], counts["rows_refused"]) == (1, 0)
    assert last_answer(book.parent) == ("dmy" if answers == "d\n" else "mdy")
    alone = nightscreen("quote", str(book), "--json", cwd=book.parent)
    assert alone.document["checks"]["ecosystem"]["rows_refused"] == 0


def test_inspect_asks_too_and_shows_what_follows(book: Path) -> None:
    """Its counts are those of the answer."""
    ended = typed(book.parent, "inspect", str(book), "--json", answers="m\n")
    assert ended.document["rows_with_valid_consent"] == 1
    assert last_answer(book.parent) == "mdy"


def test_yes_does_not_answer_and_the_end_of_input_is_no_answer(book: Path) -> None:
    """Nothing is asked of the service without it."""
    ended = typed(book.parent, "screen", str(book), "--yes", answers="\x04")
    assert ended.status == 2
    assert "consented_at" in ended.err
    assert not (book.parent / "out").exists()


def test_what_the_file_shows_is_not_asked(tmp_path: Path) -> None:
    """Neither is what no consent depends on, nor where nobody sits at a terminal."""
    shown = typed(tmp_path, "quote", str(write(tmp_path, OPEN, SHOWN)), "--json", answers="")
    assert "[d/m]" not in shown.err
    assert shown.document["checks"]["ecosystem"]["lookups"] == 2
    alone = nightscreen("quote", str(write(tmp_path, OPEN)), "--json", cwd=tmp_path)
    assert (alone.status, json.loads(alone.out)["checks"]["ecosystem"]["rows_refused"]) == (0, 1)
