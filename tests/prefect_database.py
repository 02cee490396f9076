"""`python -m tests.prefect_database`: make anew the empty database of the Prefect servers we start.

Needed only when the oldest Prefect that `pyproject.toml` allows changes: a later one migrates it.
"""

from __future__ import annotations

import asyncio
import gzip
import os
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

from nightscreen.tasks.temporary_server import EMPTY_DATABASE


def make_database(path: Path) -> None:
    """Make an empty database by Prefect's own migrations."""
    os.environ["PREFECT_HOME"] = str(path.parent)
    os.environ["PREFECT_API_DATABASE_CONNECTION_URL"] = f"sqlite+aiosqlite:///{path}"
    from prefect.server.database import provide_database_interface  # noqa: PLC0415 - reads the above

    asyncio.run(provide_database_interface().create_db())


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "prefect.db"
        make_database(made)
        with closing(sqlite3.connect(made)) as opened:
            opened.execute("PRAGMA journal_mode=DELETE")
            opened.execute("VACUUM")
            EMPTY_DATABASE.write_bytes(gzip.compress(opened.serialize(), mtime=0))
