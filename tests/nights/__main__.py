"""The standard nights against what is kept of them: `python -m tests.nights [--keep] [NIGHT …]`.

Prints each difference, and the reason for it where `reasons.toml` gives one; the exit status is 1
where one has no reason, or a reason names nothing. `--keep` keeps the outputs as the new measure.
"""

from __future__ import annotations

import argparse
import sys

from tests.nights.comparison import (
    Difference,
    Reason,
    differences,
    judged,
    keep,
    read_kept,
    read_reasons,
)
from tests.nights.spent import WORLDS
from tests.nights.standard import spend_all


def main() -> int:
    """Compare or keep, as the command line says; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.nights")
    parser.add_argument("nights", nargs="*", metavar="NIGHT", help="only these; default: all")
    parser.add_argument("--keep", action="store_true", help="keep the outputs as the measure")
    given = parser.parse_args()
    wanted = given.nights or list(WORLDS)
    if unknown := set(wanted) - set(WORLDS):
        parser.error(f"no such night: {', '.join(sorted(unknown))}; there are {', '.join(WORLDS)}")
    found: list[Difference] = []
    for spent in spend_all(wanted):
        if given.keep:
            keep(spent.name, spent.outputs)
            _say(f"{spent.name}: kept")
            continue
        differing = list(differences(spent.name, read_kept(spent.name), spent.outputs))
        found += differing
        if not differing:
            _say(f"{spent.name}: equal")
    return 0 if given.keep else _tell(found, read_reasons(), whole=not given.nights)


def _tell(found: list[Difference], reasons: list[Reason], *, whole: bool) -> int:
    """Print differences and reasons; return the exit status."""
    unnamed, needless = judged(found, reasons)
    for each in found:
        why = next((reason.reason for reason in reasons if reason.names(each)), "no reason given")
        _say(f"{each} [{why}]")
    needless = needless if whole else []
    for reason in needless:
        _say(f"reasons.toml: nothing differs at {reason.night}, {reason.file}, {reason.path}")
    _say(f"{len(found)} differences, {len(unnamed)} of them without a reason")
    return 1 if unnamed or needless else 0


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")


if __name__ == "__main__":
    sys.exit(main())
