"""Pictures of the real pages for README and docs: `python -m tests.desk.pictures [FOLDER]`.

Everybody on them is made up. Each is a PNG under 250 kB.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.browser.chromium import chromium
from tests.desk.furnished import CHIEF, furnished, opened, places

FOLDER = Path(__file__).parents[2] / "docs" / "pictures"
WIDE, HIGH = 1180, 640
MOST_BYTES = 250_000
PICTURES = {
    "desk-tonight": "tonight",
    "desk-approvals": "approvals",
    "desk-decisions": "list",
    "desk-customer": "customer",
    "desk-new-file": "new file",
    "desk-applicant": "applicant",
    "desk-runs": "runs",
    "desk-run": "run",
    "desk-contests": "contests",
    "desk-users": "users",
    "desk-my-work": "decisions",
    "desk-fix": "fix",
    "desk-correct": "correct",
    "desk-policy": "policy",
    "desk-money": "money",
    "desk-audit": "audit",
}


def main(folder: Path) -> None:
    """Take every picture."""
    folder.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as work,
        furnished(Path(work), nights=14, number=150) as office,
        chromium() as browser,
    ):
        addresses = places(office)
        page = opened(office, browser, CHIEF, width=WIDE, height=HIGH)
        for name, place in PICTURES.items():
            page.goto(office.origin + addresses[place])
            picture = page.screenshot()
            assert len(picture) < MOST_BYTES, (name, len(picture))
            (folder / f"{name}.png").write_bytes(picture)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if sys.argv[1:] else FOLDER)
