"""Compare standard nights with their saved outputs: `python -m tests.nights [--keep] [NIGHT …]`.

Prints the differences; the exit status is 1 if there are any. `--keep` saves the new outputs; the
commit that changes them says why.
"""

from __future__ import annotations

import argparse
import sys

from tests.nights.spent import WORLDS
from tests.nights.standard import differences, measure_of, spend_all


def main() -> int:
    """Compare or save, as the command line says; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.nights")
    parser.add_argument("nights", nargs="*", metavar="NIGHT", help="only these; default: all")
    parser.add_argument("--keep", action="store_true", help="save the new outputs")
    arguments = parser.parse_args()
    names = arguments.nights or list(WORLDS)
    if unknown := set(names) - set(WORLDS):
        parser.error(f"no such night: {', '.join(sorted(unknown))}; there are {', '.join(WORLDS)}")
    differing = 0
    for spent in spend_all(names):
        if arguments.keep:
            measure_of(spent.name).write_text(spent.outputs, "utf-8")
        difference = differences(spent)
        differing += bool(difference)
        sys.stdout.write(f"{spent.name}: {'differs' if difference else 'equal'}\n{difference}")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
