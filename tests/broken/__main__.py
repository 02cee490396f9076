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
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

from tests.broken.behaviours import BEHAVIOURS, ROOT, Broken, Edit

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


@dataclass(frozen=True, slots=True)
class Tried:
    """What came of one behaviour."""

    broken: Broken  # the behaviour
    seconds: float  # what its tests took
    by: str = ""  # the test that found it; empty where none did
    why_not: str = ""  # why it was not found

    def line(self) -> str:
        """Return it as one line."""
        how = f"found by {self.by}" if self.by else self.why_not
        return f"{self.seconds:5.1f} s  {self.broken.name}: {how}"


@dataclass(frozen=True, slots=True)
class Ran:
    """How a run of pytest ended; `status` is None where its time was up."""

    status: int | None
    output: str
    seconds: float

    @property
    def failures(self) -> list[str]:
        return list(dict.fromkeys(_FAILURE.findall(self.output)))


@contextmanager
def copied_tree() -> Iterator[Path]:
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


def run_tests(tree: Path, tests: Sequence[str], *, most_s: float, to_the_end: bool = False) -> Ran:
    """Run some tests in a tree; whatever they started is ended with them where time is up."""
    command = [sys.executable, "-m", "pytest", "-q", "-n0", "-p", "no:cacheprovider", *tests]
    if not to_the_end:
        command.insert(3, "-x")
    began = time.monotonic()
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
            output, _ = process.communicate()
            return Ran(None, output, time.monotonic() - began)
    return Ran(process.returncode, output, time.monotonic() - began)


@contextmanager
def broken_tree(tree: Path, edits: Sequence[Edit]) -> Iterator[None]:
    """Break a tree for the body.

    Raises:
        ValueError: the code is not as an edit expects it.
    """
    before = {edit.file: (tree / edit.file).read_text("utf-8") for edit in edits}
    try:
        for edit in edits:
            path = tree / edit.file
            path.write_text(edit.applied_to(path.read_text("utf-8")), "utf-8")
            _forget_compiled(path)
        yield
    finally:
        for file, text in before.items():
            (tree / file).write_text(text, "utf-8")
            _forget_compiled(tree / file)


def _forget_compiled(path: Path) -> None:
    """Remove what Python compiled of a file: an edit within a second may look like the old one."""
    for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
        compiled.unlink()


def try_one(tree: Path, broken: Broken) -> Tried:
    """Break a tree in one way and say whether a test notices."""
    try:
        with broken_tree(tree, broken.edits):
            ran = run_tests(tree, broken.tests, most_s=MOST_S)
    except ValueError as error:
        return Tried(broken, 0.0, why_not=f"DOES NOT APPLY: {error}")
    if ran.status == _FAILED and ran.failures:
        return Tried(broken, ran.seconds, by=ran.failures[0])
    if ran.status is None:
        return Tried(broken, ran.seconds, why_not=f"NOT FOUND within {MOST_S:.0f} s")
    if ran.status == 0:
        return Tried(broken, ran.seconds, why_not="NOT FOUND")
    last = (ran.output.strip().splitlines() or ["nothing was said"])[-1]
    return Tried(broken, ran.seconds, why_not=f"CANNOT BE TRIED: {last}")


def failing_unbroken(behaviours: Sequence[Broken]) -> list[str]:
    """Return the tests that fail though nothing is broken, or why they cannot be run."""
    tests = sorted({test for broken in behaviours for test in broken.tests})
    with copied_tree() as tree:
        ran = run_tests(tree, tests, most_s=BASELINE_S, to_the_end=True)
    _say(f"{ran.seconds:5.1f} s  all {len(tests)} tests that are named, with nothing broken")
    if ran.status == 0:
        return []
    return ran.failures or ran.output.strip().splitlines()[-5:]


def try_all(behaviours: Sequence[Broken], jobs: int) -> list[Tried]:
    """Try behaviours, so many at a time, and print a line for each."""
    trees: SimpleQueue[Path] = SimpleQueue()

    def tried(broken: Broken) -> Tried:
        tree = trees.get()
        try:
            found = try_one(tree, broken)
        finally:
            trees.put(tree)
        _say(found.line())
        return found

    with ThreadPoolExecutor(jobs) as pool, _several_trees(jobs) as copies:
        for copy in copies:
            trees.put(copy)
        return list(pool.map(tried, behaviours))


@contextmanager
def _several_trees(number: int) -> Iterator[list[Path]]:
    """Give so many copies of the tree."""
    if number == 0:
        yield []
        return
    with copied_tree() as tree, _several_trees(number - 1) as others:
        yield [tree, *others]


def chosen(words: Sequence[str]) -> list[Broken]:
    """Return the behaviours whose name has one of some words; all where there are none."""
    lower = [word.lower() for word in words]
    return [
        broken
        for broken in BEHAVIOURS
        if not lower or any(word in broken.name.lower() for word in lower)
    ]


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> int:
    """Try what the command line names; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.broken", description=__doc__)
    parser.add_argument("words", nargs="*", help="words of the names; all behaviours without any")
    parser.add_argument("--jobs", type=int, default=1, help="how many to try at a time")
    parser.add_argument(
        "--no-baseline", action="store_true", help="do not run the tests unbroken first"
    )
    given = parser.parse_args()
    behaviours = chosen(given.words)
    if not behaviours:
        _say("no behaviour has such a name")
        return 1
    failing = [] if given.no_baseline else failing_unbroken(behaviours)
    if failing:
        _say("fails though nothing is broken:\n" + "\n".join(failing))
        return 1
    tried = try_all(behaviours, max(1, given.jobs))
    missed = [each for each in tried if not each.by]
    slowest = max(tried, key=lambda each: each.seconds)
    total_s = sum(each.seconds for each in tried)
    _say(
        f"{len(tried) - len(missed)} of {len(tried)} found in {total_s:.0f} s of tests; "
        f"slowest: {slowest.broken.name}, {slowest.seconds:.1f} s"
    )
    for each in missed:
        _say(f"missed: {each.broken.name}. {each.broken.promise}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
