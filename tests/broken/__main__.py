"""Break the code in each of the listed ways and see that a test notices: `python -m tests.broken`.

Words name the behaviours that are tried: those whose name has one of them. Each is applied to a
copy of the tree, so that the tree itself is never touched, and its own tests are run there.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.broken.behaviours import BEHAVIOURS, ROOT, Broken

COPIED = (
    *("nightscreen", "tests", "docs", "deploy"),
    *("data", "flows", "schemas", "tasks"),  # links into the package
    *("pyproject.toml", "prefect.yaml", "README.md", "CHANGELOG.md"),
)
"""What tests need of the tree."""
LEFT_OUT = shutil.ignore_patterns("__pycache__", "pictures", ".hypothesis")
MOST_S = 60.0
"""The tests of one behaviour may take so long; a behaviour they do not find by then is missed."""
BASELINE_S = 1800.0
_FAILURE = re.compile(r"^(?:FAILED|ERROR) (\S+::.+?)(?: - .*)?$", re.MULTILINE)
_FAILED = 1  # pytest's exit status where tests failed; all others but 0 say that it could not try


@contextmanager
def copied_tree() -> Iterator[Path]:
    """Give a copy of the tree that tests can run in."""
    with tempfile.TemporaryDirectory(prefix="broken-") as folder:
        copy = Path(folder)
        for name in COPIED:
            source = ROOT / name
            if source.is_symlink():
                (copy / name).symlink_to(source.readlink())
            elif source.is_dir():
                shutil.copytree(source, copy / name, symlinks=True, ignore=LEFT_OUT)
            else:
                shutil.copy2(source, copy / name)
        yield copy


def run_tests(tree: Path, tests: Sequence[str], *more: str, most_s: float) -> tuple[int, list[str]]:
    """Run some tests in a tree; whatever they started is ended with them where time is up.

    Returns:
        pytest's exit status, -1 where time was up; the tests that failed, or what it said last.
    """
    command = [sys.executable, "-m", "pytest", "-q", "-n0", "-p", "no:cacheprovider", *more, *tests]
    with subprocess.Popen(
        command,
        cwd=tree,
        env={**os.environ, "PYTHONPATH": str(tree)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            output, _ = process.communicate(timeout=most_s)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return -1, [f"more than {most_s:.0f} s"]
    failed = list(dict.fromkeys(_FAILURE.findall(output)))
    return process.returncode, failed or output.strip().splitlines()[-5:]


@contextmanager
def broken_tree(tree: Path, broken: Broken) -> Iterator[None]:
    """Break a tree for the body.

    Raises:
        ValueError: the code is not as an edit expects it.
    """
    before = {edit.file: (tree / edit.file).read_text("utf-8") for edit in broken.edits}
    try:
        for edit in broken.edits:
            path = tree / edit.file
            _write(path, edit.applied_to(path.read_text("utf-8")))
        yield
    finally:
        for file, text in before.items():
            _write(tree / file, text)


def _write(path: Path, text: str) -> None:
    """Write a file, and remove what Python compiled: within a second it may look like the old."""
    path.write_text(text, "utf-8")
    for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
        compiled.unlink()


def is_found(tree: Path, broken: Broken) -> bool:
    """Break a tree in one way, and print and return whether a test notices."""
    began = time.monotonic()
    try:
        with broken_tree(tree, broken):
            status, said = run_tests(tree, broken.tests, "-x", most_s=MOST_S)
    except ValueError as error:
        status, said = -1, [f"DOES NOT APPLY: {error}"]
    found = status == _FAILED and "::" in said[0]
    how = f"found by {said[0]}" if found else f"NOT FOUND: {' '.join(said)}; {broken.promise}"
    _say(f"{time.monotonic() - began:5.1f} s  {broken.name}: {how}")
    return found


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> int:
    """Try what the command line names; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.broken", description=__doc__)
    parser.add_argument("words", nargs="*", help="words of the names; all behaviours without any")
    parser.add_argument(
        "--no-baseline", action="store_true", help="do not run the tests unbroken first"
    )
    given = parser.parse_args()
    words = [word.lower() for word in given.words or [""]]
    chosen = [each for each in BEHAVIOURS if any(word in each.name.lower() for word in words)]
    with copied_tree() as tree:
        tests = sorted({test for broken in chosen for test in broken.tests})
        if not given.no_baseline and tests:
            status, said = run_tests(tree, tests, most_s=BASELINE_S)
            if status:
                _say("fails though nothing is broken:\n" + "\n".join(said))
                return 1
        found = sum([is_found(tree, broken) for broken in chosen])
    _say(f"{found} of {len(chosen)} found")
    return int(found < len(chosen) or not chosen)


if __name__ == "__main__":
    sys.exit(main())
