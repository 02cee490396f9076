"""A run's workspace: rows and lookups between the stations, sealed at rest.

It is under HOME. Tasks pass names of pieces, never rows. Each piece is an Arrow table, compressed
and sealed under the data key, so that nothing in it can be read without the journal's key. Removed
when a run completes.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from nightscreen.files.private_files import make_private_folder, write_passing
from nightscreen.schemas.errors import JournalError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from nightscreen.files.sealing import Sealer

_PACKED = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)  # read twice, soon gone
_ONE_THREAD = pa.ipc.IpcReadOptions(use_threads=False)


def sweep_workspaces(home: Path, alive: Callable[[str], bool]) -> None:
    """Remove what killed runs left between their stations.

    Folders of workspaces and of quotes are named `<run id>@<holder>`.
    """
    for pattern in ("work/*@*", "quotes/*@*"):
        for folder in home.glob(pattern):
            if not alive(folder.name.rpartition("@")[2]):
                shutil.rmtree(folder, ignore_errors=True)


@dataclass(frozen=True, slots=True)
class Workspace:
    """Sealed pieces of one run."""

    folder: Path  # their folder
    run_id: str  # the run they belong to; a piece does not open in another run's name
    _sealer: Sealer = field(repr=False)

    @classmethod
    def of(cls, home: Path, run_id: str, sealer: Sealer) -> Workspace:
        """Return the workspace of a run, making its folder."""
        work = make_private_folder(home / "work")
        return cls(make_private_folder(work / run_id), run_id, sealer)

    def _context(self, name: str) -> bytes:
        return f"workspace\x1f{self.run_id}\x1f{name}".encode()

    def put(self, name: str, table: pa.Table | pa.RecordBatch) -> None:
        """Seal a table under a name, replacing what was there."""
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema, options=_PACKED) as writer:
            writer.write(table)
        sealed = self._sealer.seal(memoryview(sink.getvalue()).cast("B"), self._context(name))
        write_passing(self.folder / f"{name}.sealed", sealed)

    def get(self, name: str) -> pa.Table:
        """Return the table of a name.

        Raises:
            JournalError: it is not there, or does not open.
        """
        opened = self._read(f"{name}.sealed", name)
        return pa.ipc.open_stream(opened, options=_ONE_THREAD).read_all()

    def drop(self, name: str) -> None:
        """Remove the table of a name, where there is one."""
        (self.folder / f"{name}.sealed").unlink(missing_ok=True)

    def note(self, name: str, value: Mapping[str, Any]) -> None:
        """Seal a small JSON document under a name."""
        sealed = self._sealer.seal(json.dumps(value).encode(), self._context(name))
        write_passing(self.folder / f"{name}.note", sealed)

    def noted(self, name: str) -> dict[str, Any]:
        """Return a small JSON document."""
        found: dict[str, Any] = json.loads(self._read(f"{name}.note", name))
        return found

    def has_note(self, name: str) -> bool:
        """Return whether a note is there."""
        return (self.folder / f"{name}.note").exists()

    def _read(self, file: str, name: str) -> bytes:
        try:
            sealed = (self.folder / file).read_bytes()
        except FileNotFoundError:
            raise JournalError(
                f"the workspace of run {self.run_id} lacks {name}; start the run again from its "
                "input: what was answered is in the journal and is not paid for again"
            ) from None
        return self._sealer.open(sealed, self._context(name))

    def clear(self) -> None:
        """Remove every piece."""
        shutil.rmtree(self.folder, ignore_errors=True)
