"""A lender's own check, installed from `examples/phone_owner` beside nightscreen, and taken away.

The package goes into a folder of its own that only the processes of this test look into.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.screening import customer

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "phone_owner"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the installed package."""
    folder = tmp_path_factory.mktemp("added")
    source = shutil.copytree(EXAMPLE, folder / "phone_owner")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    where = ["--no-deps", "--no-build-isolation", "--no-index", "--target", str(folder / "site")]
    subprocess.run([*pip, *where, str(source)], check=True)
    return folder / "site"


def run_tests(site: Path | None, *paths: str, **more: str) -> None:
    """Run the tests of files or folders in a process with the package, or without."""
    added = [] if site is None else [str(site), str(EXAMPLE / "tests")]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *added]), **more}
    env.pop("PYTEST_XDIST_WORKER", None)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *paths],
        cwd=ROOT,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-3000:]


def test_it_makes_the_round_and_its_runs_open_without_it(site: Path, tmp_path: Path) -> None:
    """Quoted, asked, paid, reused, resumed, decided, reported, shown, erased, and uninstalled.

    What a lender's engineer writes beside the check passes too. Once the package is gone, what the
    check was paid for is still read, and still erased.
    """
    run_tests(site, "examples/phone_owner/tests", "tests/added/installed.py", LENDER=str(tmp_path))
    other = customer(1005)
    named = f"{other['first_name']} {other['last_name']}"
    run_tests(None, "tests/added/uninstalled.py", LENDER=str(tmp_path), SOMEBODY_ELSE=named)
