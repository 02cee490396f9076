"""Personal data in a file's name, and the name used instead.

The engine, the journal, reports and manifests keep names of files in clear and for long. A file
whose name holds a customer's number, address or name is therefore known there by a link under HOME
that says nothing. Other modules check the file's content.
"""

from __future__ import annotations

import csv
import hashlib
import re
from functools import cache
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel

from nightscreen.schemas.errors import OutputError
from nightscreen.schemas.parameters import batch_name, contains_identifier
from nightscreen.steps.values.validators import DATA
from nightscreen.storage.files import make_private_folder

P = TypeVar("P", bound=BaseModel)

HANDLES = "inputs"
"""Folder under HOME of the links."""
_WORD = re.compile(r"[^\W\d_]+")
_LEAST_AFTER_PREFIX = 3
_LEAST_PREFIX = 3
_ENOUGH = 2
"""Names in a file's name that make a person: one alone may be a month, a place or a brand."""


def names_somebody(name: str) -> bool:
    """Return whether a file's name seems to hold a customer's number, email address or full name.

    A name is recognised by the lists of name matching, so a rare one may be missed: batch names
    and folders are best given without names of people.
    """
    if contains_identifier(name):
        return True
    return sum(map(_is_name, _WORD.findall(name))) >= _ENOUGH


def batch_of(path: Path) -> str:
    """Return the batch name that follows from a file's name; nobody's name is left in it."""
    name = batch_name(path)
    if not names_somebody(name):
        return name
    rest = _WORD.sub(lambda word: "" if _is_name(word[0]) else word[0], name)
    return re.sub(r"[-_ .]{2,}", "-", rest).strip("-_. ") or "batch"


def without_names(parameters: P, home: Path) -> P:
    """Return a run's parameters with its input under a name that says nothing of anybody.

    Args:
        parameters: with `input`, and with `batch` where the run has one.
        home: where the link is made.

    Raises:
        OutputError: the link cannot be made.
    """
    given = str(getattr(parameters, "input", ""))
    path = Path(given)
    if not given or path.parent == (home / HANDLES).absolute() or not _holds_personal_data(path):
        return parameters
    if not path.exists():  # a pattern, or a mistake whose own message says so best
        return parameters
    changes = {"input": str(handle_of(path, home))}
    if "batch" in type(parameters).model_fields and not getattr(parameters, "batch", ""):
        changes["batch"] = batch_of(path)[:80]
    return parameters.model_copy(update=changes)


def _holds_personal_data(path: Path) -> bool:
    return names_somebody(path.name) or any(map(contains_identifier, path.parent.parts))


def handle_of(path: Path, home: Path) -> Path:
    """Return the link by which a file is known; it leads nowhere once the file is gone.

    Raises:
        OutputError: the link cannot be made.
    """
    absolute = path.absolute()
    folder = make_private_folder(home.absolute() / HANDLES)
    digest = hashlib.sha256(str(absolute).encode("utf-8", "surrogateescape")).hexdigest()[:12]
    handle = folder / f"file-{digest}{path.suffix[:8]}"
    try:
        if absolute.exists() and not handle.is_symlink():
            handle.symlink_to(absolute)
    except FileExistsError:
        pass
    except OSError as error:
        raise OutputError(
            f"cannot write to {folder}: {error.strerror}; fix it, then run again"
        ) from None
    return handle


def forget_names(home: Path) -> int:
    """Remove the links whose file is gone, and return how many; they hold its name."""
    folder = home.absolute() / HANDLES
    gone = [link for link in folder.iterdir() if not link.exists()] if folder.is_dir() else []
    for link in gone:
        link.unlink(missing_ok=True)
    return len(gone)


def _is_name(word: str) -> bool:
    upper = word.upper()
    names, prefixes = _known()
    return upper in names or any(
        upper.startswith(prefix) and len(upper) >= len(prefix) + _LEAST_AFTER_PREFIX
        for prefix in prefixes
    )


@cache
def _known() -> tuple[frozenset[str], tuple[str, ...]]:
    """Return names of people in capitals, and what many others begin with."""
    names: set[str] = set()
    for file, columns in (
        ("families.csv", ("name", "spellings")),
        ("short_forms.csv", ("short", "long")),
    ):
        for row in _rows(file):
            names.update(word for column in columns for word in row[column].split())
    prefixes = (row["prefix"] for row in _rows("prefixes.csv"))
    return frozenset(names), tuple(prefix for prefix in prefixes if len(prefix) >= _LEAST_PREFIX)


def _rows(file: str) -> list[dict[str, str]]:
    with (DATA / "names" / file).open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))
