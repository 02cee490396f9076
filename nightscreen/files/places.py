"""Output places beyond this machine: any URL that fsspec knows, such as s3://bucket/path.

A run's files are made in a folder under HOME, on which every command works; every change there,
erasure included, is copied to the URL. Each file appears there whole, by one upload; the manifest
is removed first and written last, so that a manifest always matches the files beside it. Access,
address and credentials are the place's own.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import shutil
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from nightscreen.files.outputs import MANIFEST
from nightscreen.files.private_files import make_private_folder, write_private
from nightscreen.schemas.errors import OutputError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MADE_HERE = "outputs"
"""Folder of HOME in which the files of runs are made that go to a URL."""


@dataclass(frozen=True, slots=True)
class RemotePlace:
    """Everything below a URL.

    Attributes:
        url: as it was given, for people.
    """

    url: str
    _files: Any = field(repr=False)  # an fsspec file system; they ship no types
    _root: str = field(repr=False)

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}"

    def write(self, name: str, data: bytes) -> None:
        """Upload a whole file."""
        with _translate_errors(self.url):
            self._files.makedirs(self._path(name).rpartition("/")[0], exist_ok=True)
            self._files.pipe_file(self._path(name), data)

    def upload(self, name: str, source: Path) -> None:
        """Upload a whole file of this machine without holding it in memory."""
        with _translate_errors(self.url):
            self._files.makedirs(self._path(name).rpartition("/")[0], exist_ok=True)
            self._files.put_file(str(source), self._path(name))

    def read(self, name: str) -> bytes:
        """Return a file."""
        with _translate_errors(self.url):
            self._files.invalidate_cache()
            return bytes(self._files.cat_file(self._path(name)))

    def names(self) -> list[str]:
        """Return the name of every file, sorted."""
        with _translate_errors(self.url):
            self._files.invalidate_cache()
            found = self._files.find(self._root)
        return sorted(path.removeprefix(f"{self._root}/") for path in found)

    def remove(self, name: str) -> None:
        """Remove a file, where there is one."""
        with _translate_errors(self.url):
            if self._files.isfile(self._path(name)):
                self._files.rm_file(self._path(name))

    def clear(self) -> None:
        """Remove everything."""
        with _translate_errors(self.url):
            self._files.invalidate_cache()
            if self._files.exists(self._root):
                self._files.rm(self._root, recursive=True)

    def below(self, name: str) -> RemotePlace:
        """Return the place of a name below this one."""
        return RemotePlace(f"{self.url}/{name}", self._files, self._path(name))


def is_url(place: str) -> bool:
    """Return whether a place is an fsspec URL rather than a path of this machine."""
    return "://" in place and not place.startswith("file://")


def remote_place(url: str) -> RemotePlace:
    """Return the place of a URL; nothing is written yet.

    Raises:
        OutputError: the URL contains a password, or no driver for it is installed.
    """
    parts = urlsplit(url)
    if parts.username or parts.password:
        raise OutputError(
            f"the {parts.scheme} address must not hold a user name or password: it is kept in "
            "clear; give them by the file system's own settings"
        )
    from fsspec.core import url_to_fs  # noqa: PLC0415 - only where wanted: it costs a tenth of a second

    try:
        files, root = url_to_fs(url.rstrip("/"))
    except (ImportError, ValueError):
        raise OutputError(
            f"no driver for {parts.scheme}:// is installed: install fsspec's for it (for s3 "
            "pip install 'nightscreen[s3]'), or name a folder"
        ) from None
    return RemotePlace(url.rstrip("/"), files, str(root).rstrip("/"))


def try_to_write(url: str) -> None:
    """Write a file below a URL and take it away again.

    Raises:
        OutputError: that cannot be done.
    """
    place = remote_place(url)
    name = f".trial-{secrets.token_hex(4)}"
    place.write(name, b"")
    place.remove(name)


@contextmanager
def _translate_errors(url: str) -> Iterator[None]:
    """Turn a driver's error into one of ours."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 - each driver has errors of its own
        raise OutputError(
            f"cannot use {url} ({type(error).__name__}): correct the address, its credentials or "
            "its network, then resume the run"
        ) from None


def folder_to_publish(home: Path, url: str, run_id: str) -> Path:
    """Return the folder under HOME in which a run's files are made before they go to a URL.

    Reports of the run that are only at the URL are fetched, so that a run that another machine
    began keeps them.

    Raises:
        OutputError: the URL cannot be used.
    """
    folder = make_private_folder(make_private_folder(home / MADE_HERE) / run_id)
    place = remote_place(url).below(run_id)
    if not _note(folder).exists():
        for name in place.names():
            if name.startswith("report") and name.endswith(".json"):
                write_private(folder / name, place.read(name))
    _remember(folder, place.url, {})
    return folder


def withdraw_manifest(folder: Path) -> None:
    """Take the manifest away from the copy, before files are replaced."""
    known = _known(folder)
    if known is not None:
        remote_place(known["url"]).remove(MANIFEST)


def publish(folder: Path) -> None:
    """Update the copy at a URL from a run's folder; nothing if there is no copy.

    Raises:
        OutputError: the URL cannot be used; what is there is then without a manifest.
    """
    known = _known(folder)
    if known is None:
        return
    place = remote_place(known["url"])
    files = {
        path.relative_to(folder).as_posix(): sha256_of(path)
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.name.endswith(".part")
    }
    existing = set(place.names())
    before = known["files"]
    changed = [name for name in files if name not in existing or before.get(name) != files[name]]
    stale = sorted(existing - set(files))
    if not changed and not stale:
        return
    place.remove(MANIFEST)
    for name in changed:
        if name != MANIFEST:
            place.upload(name, folder / name)
    for name in stale:
        place.remove(name)
    if MANIFEST in files:
        place.upload(MANIFEST, folder / MANIFEST)
    _remember(folder, place.url, files)


def withdraw(folder: Path) -> None:
    """Remove a run's folder with its copy."""
    known = _known(folder)
    if known is not None:
        remote_place(known["url"]).clear()
        _note(folder).unlink(missing_ok=True)
    shutil.rmtree(folder, ignore_errors=True)


def _note(folder: Path) -> Path:
    """Return the path of the record of a folder's URL, and of the files copied there."""
    return folder.with_name(f"{folder.name}.published")


def _known(folder: Path) -> dict[str, Any] | None:
    try:
        found: dict[str, Any] = json.loads(_note(folder).read_text("utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return None
    return found


def _remember(folder: Path, url: str, files: dict[str, str]) -> None:
    write_private(_note(folder), json.dumps({"url": url, "files": files}).encode())


def sha256_of(path: Path) -> str:
    """Return the digest of a file in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
