"""The standard nights against what is kept of them: `python -m tests.nights [--keep] [NIGHT …]`.

Prints what differs; the exit status is 1 where something does. `--keep` keeps the outputs as the
new measure: whoever changes a night on purpose says why in the commit that keeps it.
"""

from __future__ import annotations

import argparse
import sys

from tests.nights.spent import WORLDS
from tests.nights.standard import differences, measure_of, spend_all


def main() -> int:
    """Compare or keep, as the command line says; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.nights")
    parser.add_argument("nights", nargs="*", metavar="NIGHT", help="only these; default: all")
    parser.add_argument("--keep", action="store_true", help="keep the outputs as the measure")
    given = parser.parse_args()
    wanted = given.nights or list(WORLDS)
    if unknown := set(wanted) - set(WORLDS):
        parser.error(f"no such night: {', '.join(sorted(unknown))}; there are {', '.join(WORLDS)}")
    differing = 0
    for spent in spend_all(wanted):
        if given.keep:
            measure_of(spent.name).write_text(spent.outputs, "utf-8")
        found = differences(spent)
        differing += bool(found)
        sys.stdout.write(f"{spent.name}: {'differs' if found else 'equal'}\n{found}")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
