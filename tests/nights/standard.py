"""The standard nights for tests: screened once in a process, read only."""

from __future__ import annotations

import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from difflib import unified_diff
from pathlib import Path

from tests.nights.fixed_world import FixedWorld
from tests.nights.outputs import names_of, outputs_of
from tests.nights.spent import spend
from tests.screening import Night

StandardNight = Callable[[str], "Spent"]


MEASURE = Path(__file__).parent / "measure"
"""The saved outputs of each night."""
_WRITING = stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH


@dataclass(frozen=True)
class Spent:
    """A standard night that was screened; tests must not change it."""

    name: str
    night: Night  # its folder and report
    world: FixedWorld  # its world, in the state after the last night there
    outputs: str  # its outputs as text, from `outputs_of`


class StandardNights:
    """Screens standard nights on first use.

    Args:
        folder: for their worlds; nothing else may be in it.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._spent: dict[str, Spent] = {}
        self._files: dict[Path, tuple[int, int]] = {}

    def get(self, name: str) -> Spent:
        if name not in self._spent:
            folder = self._folder / name
            folder.mkdir()
            world, nights = spend(name, folder)
            names = names_of(world)
            for each, night in nights.items():
                self._spent[each] = Spent(each, night, world, outputs_of(night, names))
            _refuse_writing(folder)
            self._files |= _files(folder)
        return self._spent[name]

    def changed(self) -> list[str]:
        """Return the files that were changed, created or removed since the last call.

        Needed because permissions do not stop the system's root user.
        """
        current = _files(self._folder)
        differing = {path for path, _ in self._files.items() ^ current.items()}
        self._files = current
        return sorted(str(path.relative_to(self._folder)) for path in differing)

    def close(self) -> None:
        for path in self._folder.rglob("*"):
            path.chmod(path.stat().st_mode | stat.S_IWUSR)
        shutil.rmtree(self._folder)


def _refuse_writing(folder: Path) -> None:
    for path in (folder, *folder.rglob("*")):
        path.chmod(path.stat().st_mode & ~_WRITING)


def _files(folder: Path) -> dict[Path, tuple[int, int]]:
    paths = (path for path in folder.rglob("*") if path.is_file())
    return {path: (found.st_size, found.st_mtime_ns) for path in paths for found in [path.stat()]}


def spend_all(names: Sequence[str]) -> Iterator[Spent]:
    nights = StandardNights(Path(tempfile.mkdtemp(prefix="nights-")))
    try:
        for name in names:
            yield nights.get(name)
    finally:
        nights.close()


def measure_of(name: str) -> Path:
    return MEASURE / f"{name}.txt"


def differences(spent: Spent) -> str:
    """Return the lines in which a night differs from its saved outputs; empty if it does not."""
    path = measure_of(spent.name)
    saved = path.read_text("utf-8").splitlines() if path.exists() else []
    current = spent.outputs.splitlines()
    lines = unified_diff(saved, current, "saved", "current", n=0, lineterm="")
    return "".join(f"{line}\n" for line in lines)
