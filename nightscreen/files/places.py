"""Output to URLs of fsspec, such as s3://bucket/path.

A run's files are made in a folder under HOME, which all commands use; every change there, erasure
included, is copied to the URL. Each file appears there whole, by one upload; the manifest is
removed first and written last, so that it always matches the files. Access, address and
credentials are the driver's settings.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import shutil
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from nightscreen.files.outputs import MANIFEST
from nightscreen.files.private_files import make_private_folder, write_private
from nightscreen.schemas.errors import OutputError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MADE_HERE = "outputs"  # folder under HOME for runs whose output goes to a URL


def is_url(place: str) -> bool:
    """Return whether a place is an fsspec URL rather than a path of this machine."""
    return "://" in place and not place.startswith("file://")


@contextmanager
def remote_place(url: str) -> Iterator[Any]:
    """Yield the fsspec file system below a URL; its errors become OutputErrors.

    Raises:
        OutputError: the URL contains a password, no driver for it is installed, or it fails.
    """
    parts = urlsplit(url)
    if parts.username or parts.password:
        raise OutputError(
            f"the {parts.scheme} address must not hold a user name or password: it is kept in "
            "clear; give them by the file system's own settings"
        )
    from fsspec.core import url_to_fs  # noqa: PLC0415 - only if needed: it costs a tenth of a second
    from fsspec.implementations.dirfs import DirFileSystem  # noqa: PLC0415 - as above

    try:
        files, root = url_to_fs(url.rstrip("/"))
    except (ImportError, ValueError):
        raise OutputError(
            f"no driver for {parts.scheme}:// is installed: install fsspec's for it (for s3 "
            "pip install 'nightscreen[s3]'), or name a folder"
        ) from None
    files.invalidate_cache()
    try:
        yield DirFileSystem(str(root).rstrip("/"), files)
    except Exception as error:  # noqa: BLE001 - each driver has its own errors
        raise OutputError(
            f"cannot use {url} ({type(error).__name__}): correct the address, its credentials or "
            "its network, then resume the run"
        ) from None


def names_at(place: Any) -> list[str]:  # noqa: ANN401 - fsspec has no types
    """Return the names of all files of a place, sorted."""
    place.invalidate_cache()
    return sorted(place.find(""))


def try_to_write(url: str) -> None:
    """Write a file below a URL and remove it again.

    Raises:
        OutputError: that failed.
    """
    with remote_place(url) as place:
        name = f".trial-{secrets.token_hex(4)}"
        place.pipe_file(name, b"")
        place.rm_file(name)


def folder_to_publish(home: Path, url: str, run_id: str) -> Path:
    """Return the folder under HOME for a run's files before they are copied to a URL.

    The run's reports that are only at the URL are fetched, so that a run begun on another machine
    has them.

    Raises:
        OutputError: the URL cannot be used.
    """
    folder = make_private_folder(make_private_folder(home / MADE_HERE) / run_id)
    run_url = f"{url.rstrip('/')}/{run_id}"
    if not _note(folder).exists():
        with remote_place(run_url) as place:
            for name in names_at(place):
                if name.startswith("report") and name.endswith(".json"):
                    write_private(folder / name, place.cat_file(name))
    _remember(folder, run_url, {})
    return folder


def withdraw_manifest(folder: Path) -> None:
    """Remove the manifest of the copy, before files are replaced."""
    known = _known(folder)
    if known is not None:
        with remote_place(known["url"]) as place:
            _remove(place, MANIFEST)


def publish(folder: Path) -> None:
    """Update the copy at a URL from a run's folder; nothing if there is no copy.

    Raises:
        OutputError: the URL cannot be used; the copy then has no manifest.
    """
    known = _known(folder)
    if known is None:
        return
    files = {
        path.relative_to(folder).as_posix(): sha256_of(path)
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.name.endswith(".part")
    }
    with remote_place(known["url"]) as place:
        existing, before = {*names_at(place)}, known["files"]
        changed = [
            name for name in files if name not in existing or before.get(name) != files[name]
        ]
        stale = sorted(existing - files.keys())
        if not changed and not stale:
            return
        _remove(place, MANIFEST)
        for name in stale:
            _remove(place, name)
        for name in sorted({*changed, *({MANIFEST} & files.keys())}, key=MANIFEST.__eq__):
            place.makedirs(name.rpartition("/")[0], exist_ok=True)
            place.put_file(str(folder / name), name)
    _remember(folder, known["url"], files)


def _remove(place: Any, name: str) -> None:  # noqa: ANN401 - fsspec has no types
    if place.isfile(name):
        place.rm_file(name)


def discard_folder(folder: Path) -> None:
    """Remove a run's folder with its copy."""
    known = _known(folder)
    if known is not None:
        with remote_place(known["url"]) as place:
            if place.exists(""):
                place.rm("", recursive=True)
        _note(folder).unlink(missing_ok=True)
    shutil.rmtree(folder, ignore_errors=True)


def _note(folder: Path) -> Path:
    """Return the path of the note with a folder's URL and the files copied there."""
    return folder.with_name(f"{folder.name}.published")


def _known(folder: Path) -> dict[str, Any] | None:
    try:
        note: dict[str, Any] = json.loads(_note(folder).read_text("utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return None
    return note


def _remember(folder: Path, url: str, files: dict[str, str]) -> None:
    write_private(_note(folder), json.dumps({"url": url, "files": files}).encode())


def sha256_of(path: Path) -> str:
    """Return the digest of a file in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
