"""`nightscreen privacy record`: two papers, printed or in a folder of the owner's alone."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.conftest import Here


def test_the_papers_are_printed_or_written(here: Here, folder: Path) -> None:
    """Without a service or journal; nothing is made under HOME."""
    printed = here("privacy", "record")
    assert printed.status == 0
    assert printed.out.startswith("# Record of processing")
    assert "# Impact assessment (draft)" in printed.out
    written = here("privacy", "record", "--output", "papers", "--json")
    assert json.loads(written.out)["kept"]
    papers = sorted((folder / "papers").iterdir())
    assert [each.name for each in papers] == ["impact-assessment.md", "processing-record.md"]
    assert {each.stat().st_mode & 0o777 for each in papers} == {0o600}
