"""Publishing: a run's folder copied to a URL, and kept like the copy that stays under HOME.

Every command works on the copy under HOME; every change there, erasure included, is copied to the
URL. Each file appears there whole; the manifest is removed first and written last, so that a
manifest always matches the files beside it.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from typing import TYPE_CHECKING, Any

from nightscreen.files.filesystem import remote_place
from nightscreen.files.private_files import make_private_folder, write_private

if TYPE_CHECKING:
    from pathlib import Path

    from nightscreen.files.filesystem import RemotePlace

OUTPUTS = "outputs"
_LAST = "manifest.json"
_BLOCK = 1 << 20


def folder_to_publish(home: Path, url: str, run_id: str) -> Path:
    """Return the folder under HOME in which a run's files are made before they go to a URL.

    Reports of the run that are only at the URL are fetched, so that a run that another machine
    began keeps them.

    Raises:
        OutputError: the URL cannot be used.
    """
    folder = make_private_folder(make_private_folder(home / OUTPUTS) / run_id)
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
        remote_place(known["url"]).remove(_LAST)


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
        path.relative_to(folder).as_posix(): _digest(path)
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.name.endswith(".part")
    }
    existing = set(place.names())
    before = known["files"]
    changed = [name for name in files if name not in existing or before.get(name) != files[name]]
    stale = sorted(existing - set(files))
    if not changed and not stale:
        return
    place.remove(_LAST)
    _upload(folder, place, [name for name in changed if name != _LAST])
    for name in stale:
        place.remove(name)
    _upload(folder, place, [_LAST] if _LAST in files else [])
    _remember(folder, place.url, files)


def withdraw(folder: Path) -> None:
    """Remove a run's folder with its copy."""
    known = _known(folder)
    if known is not None:
        remote_place(known["url"]).clear()
        _note(folder).unlink(missing_ok=True)
    shutil.rmtree(folder, ignore_errors=True)


def _upload(folder: Path, place: RemotePlace, names: list[str]) -> None:
    for name in names:
        place.upload(name, folder / name)


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


def _digest(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()
