"""Write `requirements-hashed.lock`: what a run needs, each file named by its digest.

Run by `make lock`, on the platform that is deployed to: the digests are those of the files that pip
would install there, and `pip install --require-hashes` takes no other.
"""

from __future__ import annotations

import json
import platform
import subprocess
import sys
import tempfile
from pathlib import Path

LOCK, HASHED = Path("requirements.lock"), Path("requirements-hashed.lock")


def main() -> None:
    """Ask pip what it would install, and write it down."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run"]
        options = ["--ignore-installed", "--no-deps", "--report", str(report), "-r", str(LOCK)]
        subprocess.run([*command, *options], check=True)
        found = json.loads(report.read_text("utf-8"))["install"]
    lines = [
        f"{each['metadata']['name'].lower().replace('_', '-')}=={each['metadata']['version']}"
        f" --hash=sha256:{each['download_info']['archive_info']['hashes']['sha256']}"
        for each in found
    ]
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    place = f"CPython {version} on {platform.system()} {platform.machine()}"
    first = f"# Written by make lock for {place}: pip install --require-hashes -r takes no other.\n"
    HASHED.write_text(first + "\n".join(sorted(lines)) + "\n", "utf-8")


if __name__ == "__main__":
    main()
