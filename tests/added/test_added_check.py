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

from tests.cli.command import nightscreen, surroundings

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "phone_owner"
ADD_IT = """
import sys
from pathlib import Path
from tests.added.phone_world import CHECKS, POLICY, PhoneWorld, borrowers
PhoneWorld(Path(sys.argv[1])).screen(borrowers(20), checks=CHECKS, policy=POLICY, batch="phones")
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the installed package."""
    folder = tmp_path_factory.mktemp("added")
    source = shutil.copytree(EXAMPLE, folder / "phone_owner")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    where = ["--no-deps", "--no-build-isolation", "--no-index", "--target", str(folder / "site")]
    subprocess.run([*pip, *where, str(source)], check=True)
    return folder / "site"


def python(site: Path | None, *arguments: str, **more: str) -> None:
    """Run Python to its end, with the package or without."""
    added = [] if site is None else [str(site), str(EXAMPLE / "tests")]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *added]), **more}
    env.pop("PYTEST_XDIST_WORKER", None)
    done = subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-3000:]


def run_tests(site: Path | None, path: str, **more: str) -> None:
    """Run the tests of a file or folder."""
    python(site, "-m", "pytest", "-q", "-p", "no:cacheprovider", path, **more)


def test_the_authors_own_tests_pass(site: Path) -> None:
    """What a lender's engineer writes beside the check."""
    run_tests(site, "examples/phone_owner/tests")


def test_it_makes_the_round(site: Path) -> None:
    """Quoted, asked, paid, reused, resumed, decided, reported, shown, erased."""
    run_tests(site, "tests/added/installed.py")


def test_old_runs_open_without_it(site: Path, tmp_path: Path) -> None:
    """Uninstalled, what it was paid for is still read, and still erased."""
    python(site, "-c", ADD_IT, str(tmp_path))
    from tests.screening import customer  # noqa: PLC0415 - loaded where it is used

    other = customer(1005)
    run_tests(
        None,
        "tests/added/uninstalled.py",
        LENDER=str(tmp_path),
        SOMEBODY_ELSE=f"{other['first_name']} {other['last_name']}",
    )


def test_a_check_that_cannot_be_loaded_ends_a_command_in_one_line(
    site: Path, tmp_path: Path
) -> None:
    """It says which package, what lacks and what to do; --json says it to programs."""
    broken = shutil.copytree(site, tmp_path / "site")
    module = broken / "phone_owner.py"
    module.write_text(module.read_text("utf-8").replace('title="Phone owner"', 'title=""'), "utf-8")
    env = surroundings(tmp_path, PYTHONPATH=os.pathsep.join([str(ROOT), str(broken)]))
    said = "the check phone_owner of the package phone-owner cannot be used: the declaration of "
    for words in (["quote", "none.csv"], ["runs", "list"], ["runs", "list", "--json"]):
        ended = nightscreen(*words, cwd=tmp_path, env=env)
        assert ended.status == 2
        assert ended.err.startswith(f"nightscreen: {said}phone_owner lacks a title; correct or")
        assert ended.err.count("\n") == 1
    assert ended.document["error"].startswith(said)
