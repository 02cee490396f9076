"""`nightscreen init` gives a folder what it needs and overwrites nothing."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.conftest import Here
from tests.flows.engine_in_a_test import ROOT


def test_a_folder_gets_what_it_needs_and_keeps_what_it_has(here: Here, tmp_path: Path) -> None:
    """A `.env` that holds a key stays as it is."""
    folder = tmp_path / "nights"
    folder.mkdir()
    (folder / ".env").write_text("NIGHTSCREEN_API_KEY=mine\n")
    ended = here("init", "--output", str(folder), "--json")
    assert ended.status == 0
    assert json.loads(ended.out) == {
        "written": {".env": False, "prefect.yaml": True, "work_pool.json": True}
    }
    assert (folder / ".env").read_text() == "NIGHTSCREEN_API_KEY=mine\n"
    assert (folder / "prefect.yaml").read_text() == (ROOT / "prefect.yaml").read_text()
