"""A lender's own check, installed from `examples/phone_owner` beside nightscreen, and taken away.

The package goes into a folder of its own that only one process looks into: there `installed` makes
the round. This process, in which no such package is installed, opens the runs afterwards.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import nightscreen
from nightscreen.checks.registry import CHECKS
from nightscreen.config.settings import read_settings
from nightscreen.journal import open_journal
from nightscreen.journal.verify import verify_journal
from nightscreen.privacy.erasure import ErasureTarget, erase, find_person_data
from nightscreen.privacy.lookup_subject import lookup_subject
from nightscreen.privacy.subject_access import gather
from tests.cli.conftest import Here
from tests.desk.office import Office
from tests.left_behind import everything
from tests.screening import customer

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "phone_owner"


@pytest.fixture(scope="module")
def lender(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the package, make the round with it, and return the folder of the lender.

    Quoted, asked, paid, reused, resumed, decided, reported, shown and erased; what a lender's
    engineer writes beside the check passes too.
    """
    folder = tmp_path_factory.mktemp("added")
    source = shutil.copytree(EXAMPLE, folder / "phone_owner")
    site, home = folder / "site", folder / "lender"
    home.mkdir()
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    where = ["--no-deps", "--no-build-isolation", "--no-index", "--target", str(site)]
    subprocess.run([*pip, *where, str(source)], check=True)
    looked_into = os.pathsep.join(map(str, (ROOT, site, EXAMPLE / "tests")))
    env = {**os.environ, "PYTHONPATH": looked_into, "LENDER": str(home)}
    env.pop("PYTEST_XDIST_WORKER", None)
    tests = ("examples/phone_owner/tests", "tests/added/installed.py")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests],
        cwd=ROOT,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-3000:]
    return home


def first_run(lender: Path) -> str:
    return next(path.parent.name for path in sorted((lender / "out").glob("*/manifest.json")))


def test_its_runs_still_open(lender: Path, here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    """Journal, frame, desk and commands show what was paid for."""
    assert "phone_owner" not in CHECKS
    run_id = first_run(lender)
    with open_journal(lender / "home") as journal:
        assert verify_journal(journal) == []
    frame = nightscreen.open_run(lender / "out" / run_id).rows
    assert set(frame["phone_owner_status"]) == {"verified", "mismatch", "not_found"}
    with Office(lender) as office:
        analyst = office.browser("analyst", name="opener")
        for page in (f"/runs/{run_id}", f"/runs/{run_id}/decisions", "/customers/C1", "/money"):
            assert analyst.get(page).status_code == 200, page
    monkeypatch.setenv("NIGHTSCREEN_HOME", str(lender / "home"))
    for words in (("runs", "show", run_id), ("explain", "C1")):
        ended = here(*words, "--json")
        assert ended.status == 0, ended.err


def test_it_is_not_resumed_in_ignorance(
    lender: Path, here: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One line says which check there is no longer."""
    run_id = first_run(lender)
    monkeypatch.setenv("NIGHTSCREEN_HOME", str(lender / "home"))
    for named in ([], ["--checks", "phone_owner"]):
        ended = here("screen", "--run", run_id, *named)
        assert ended.status == 2
        assert "installed no longer" in ended.err or "phone_owner is none of" in ended.err


def test_its_subject_sees_what_is_theirs_and_can_be_erased(lender: Path) -> None:
    """What nothing can tell to be the customer's is withheld; all of it goes."""
    settings = read_settings(_env_file=None, base_url="http://127.0.0.1:1")
    other = customer(1005)
    somebody_else = f"{other['first_name']} {other['last_name']}"
    with open_journal(lender / "home") as journal:
        people = lookup_subject(journal, "C5")
        text = json.dumps(gather(journal, people, settings.retention), default=str)
        assert "phone_owner" in text
        assert somebody_else not in text
        found = find_person_data(journal, ErasureTarget(customer_id="C4"))
        pseudonyms = found.pseudonyms().all
        done = erase(journal, found)
        assert (done["calls"], done["answers"]) == (3, 3)
    for path, held in everything(lender):
        assert not [needle for needle in (b"8030000004", *pseudonyms) if needle in held], path
