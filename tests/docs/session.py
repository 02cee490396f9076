"""One user's session in a process of its own: commands typed one after the other, none forgotten.

One process for all of them, since the engine takes ten seconds to start. What is typed, and what is
expected of it, is in the tests.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import asdict, dataclass, field
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING
from unittest.mock import patch

from nightscreen.cli.entry import run
from tests.cli.command import Ended, surroundings

if TYPE_CHECKING:
    from collections.abc import Sequence

PREPARE = "(prepare)"
"""Begins a step that is nobody's command: what `tests.docs.prepare` does."""
RUN, OTHER_RUN, PULL = "20260301-220000-a1b2c3", "20260302-220000-d4e5f6", "20260301-050000-a1b2c3"
EVERY_RUN = "out/2026030*"
"""Runs as the pages name them."""


@dataclass(frozen=True, slots=True)
class Typed:
    """A command as it is typed, and what surrounds it."""

    name: str
    words: list[str]
    environment: dict[str, str] = field(default_factory=dict)


def type_all(
    folder: Path, typed: Sequence[Typed], settings: dict[str, str], patience_s: float
) -> dict[str, Ended]:
    """Type commands one after the other in a folder, and return how each ended."""
    plan = folder / "plan.json"
    plan.write_text(json.dumps([asdict(each) for each in typed]), encoding="utf-8")
    path = f"{Path(__file__).resolve().parents[2]}:{os.environ.get('PYTHONPATH', '')}"
    done = subprocess.run(
        [sys.executable, "-m", "tests.docs.session", str(plan)],
        cwd=folder,
        env={**surroundings(folder, **settings), "PYTHONPATH": path},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=patience_s,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(done.stderr)
    return {name: Ended(**ended) for name, ended in json.loads(done.stdout).items()}


def main(plan: Path) -> None:
    """Carry a plan out and print how each command ended, as JSON."""
    ended = {
        each["name"]: asdict(_type(each["words"], each["environment"]))
        for each in json.loads(plan.read_text(encoding="utf-8"))
    }
    json.dump(ended, sys.stdout)


def _type(words: list[str], environment: dict[str, str]) -> Ended:
    if words[0] == PREPARE:
        subprocess.run([sys.executable, "-m", "tests.docs.prepare", *words[1:]], check=True)
        return Ended(0, "", "")
    out, err = StringIO(), StringIO()
    status: object = 0
    with (
        patch.object(sys, "argv", ["nightscreen", *_expanded(words)]),
        patch.dict(os.environ, {name: _read(value) for name, value in environment.items()}),
        redirect_stdout(out),
        redirect_stderr(err),
    ):
        try:
            run()
        except SystemExit as end:
            status = end.code
    return Ended(status if isinstance(status, int) else 1, out.getvalue(), err.getvalue())


def _read(value: str) -> str:
    """Return a setting, read from a file where it names one."""
    return Path(value[1:]).read_text(encoding="ascii").strip() if value[:1] == "@" else value


def _expanded(words: list[str]) -> list[str]:
    """Return words with real runs in the place of those that the pages made up."""
    screened = sorted(str(each.parent) for each in Path("out").glob("*/enriched"))
    closed = {each.parent for each in Path("out").glob("*/quarantine.csv")}
    others = {each.parent for name in ("enriched", "bvn") for each in Path("out").glob(f"*/{name}")}
    pulled = sorted(map(str, closed - others))
    found: list[str] = []
    for word in words:
        if word.startswith(EVERY_RUN):
            found += screened
        else:
            for made_up, runs in ((RUN, screened), (OTHER_RUN, screened), (PULL, pulled)):
                if made_up in word and runs:
                    run = runs[-1 if made_up == OTHER_RUN else 0]
                    word = word.replace(made_up, Path(run).name)  # noqa: PLW2901 - one by one
            found.append(word)
    return found


if __name__ == "__main__":
    main(Path(sys.argv[1]))
