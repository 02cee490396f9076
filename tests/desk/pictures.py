"""Pictures of the real pages for README and docs: `python -m tests.desk.pictures [FOLDER]`.

Everybody on them is made up. Each is a PNG under 200 kB.
"""

from __future__ import annotations

import struct
import sys
import tempfile
import zlib
from pathlib import Path

from tests.browser.chromium import chromium
from tests.desk.furnished import furnished, opened, places

FOLDER = Path(__file__).parents[2] / "docs" / "pictures"
WIDE, HIGH = 1180, 640
MOST_BYTES = 200_000
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
        usual, administrator = (
            opened(office, browser, name, width=WIDE, height=HIGH) for name in ("Bem", "Chief")
        )
        for name, place in PICTURES.items():
            page = administrator if place == "users" else usual
            page.goto(office.origin + addresses[place])
            picture = packed(page.screenshot())
            assert len(picture) < MOST_BYTES, (name, len(picture))
            (folder / f"{name}.png").write_bytes(picture)


def packed(png: bytes) -> bytes:
    """Return the same picture with its data compressed as far as it goes."""
    head, at, data, kept = png[:8], 8, b"", []
    while at < len(png):
        (length,) = struct.unpack_from(">I", png, at)
        kind, body = png[at + 4 : at + 8], png[at + 8 : at + 8 + length]
        if kind == b"IDAT":
            data += body
        else:
            kept.append((kind, body))
        at += length + 12
    kept.insert(-1, (b"IDAT", zlib.compress(zlib.decompress(data), 9)))
    return head + b"".join(
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        for kind, body in kept
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]) if sys.argv[1:] else FOLDER)
