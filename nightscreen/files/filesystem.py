"""Places: a folder on this machine, or any URL that fsspec knows, such as s3://bucket/path.

A file appears whole or not at all at either: a local one by a rename, an object by one upload.
Private modes hold on local folders only; elsewhere access is the place's own to grant, and so are
its address and credentials, which come from its own settings. The layout is decided elsewhere.
"""

from __future__ import annotations

import secrets
import shutil
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlsplit

from nightscreen.files.private_files import write_passing
from nightscreen.schemas.errors import OutputError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Storage(Protocol):
    """Holds whole files by name; a name may hold slashes."""

    def write(self, name: str, data: bytes) -> None:
        """Write a whole file, replacing what was there."""

    def read(self, name: str) -> bytes:
        """Return a file.

        Raises:
            FileNotFoundError: there is none of this name.
        """

    def has(self, name: str) -> bool:
        """Return whether there is a file of this name."""

    def remove(self, name: str) -> None:
        """Remove a file, where there is one."""

    def clear(self) -> None:
        """Remove everything."""


@dataclass(frozen=True, slots=True)
class LocalPlace:
    """A folder of this machine, for what is gone with the run: a power loss may take it."""

    folder: Path

    def write(self, name: str, data: bytes) -> None:
        """Write a whole file, private to its owner."""
        write_passing(self.folder / name, data)

    def read(self, name: str) -> bytes:
        """Return a file."""
        return (self.folder / name).read_bytes()

    def has(self, name: str) -> bool:
        """Return whether there is a file of this name."""
        return (self.folder / name).exists()

    def remove(self, name: str) -> None:
        """Remove a file, where there is one."""
        (self.folder / name).unlink(missing_ok=True)

    def clear(self) -> None:
        """Remove the folder."""
        shutil.rmtree(self.folder, ignore_errors=True)


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
        with _translate_errors(self.url, missing=True):
            self._files.invalidate_cache()
            return bytes(self._files.cat_file(self._path(name)))

    def has(self, name: str) -> bool:
        """Return whether there is a file of this name."""
        with _translate_errors(self.url):
            self._files.invalidate_cache()
            return bool(self._files.isfile(self._path(name)))

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
def _translate_errors(url: str, *, missing: bool = False) -> Iterator[None]:
    """Turn a driver's error into one of ours; a missing file may keep its own error."""
    try:
        yield
    except Exception as error:
        if missing and isinstance(error, FileNotFoundError):
            raise
        raise OutputError(
            f"cannot use {url} ({type(error).__name__}): correct the address, its credentials or "
            "its network, then resume the run"
        ) from None
