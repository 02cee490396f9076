"""The command line of the sandbox.

`python -m nightscreen.sandbox` serves, and with `batch OUT.csv` it makes a sample file.
"""

from __future__ import annotations

import argparse
import json
import sys
from datetime import date
from pathlib import Path

from nightscreen.sandbox.state import DEFAULT_BALANCE, DEFAULT_KEY, SCENARIOS


def serve_parser() -> argparse.ArgumentParser:
    """Declare the options of serving, which `nightscreen sandbox` takes too."""
    parser = argparse.ArgumentParser(
        prog="python -m nightscreen.sandbox",
        description="Simulator of the paid service. Also: its word `batch`",
    )
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8800, help="0 takes a free port")
    parser.add_argument("--scenario", choices=tuple(SCENARIOS), default="calm")
    parser.add_argument("--api-key", default=DEFAULT_KEY, help="the only key that is right")
    parser.add_argument("--balance", metavar="NAIRA", default=DEFAULT_BALANCE)
    parser.add_argument("--seed", type=int, default=0, help="chooses faults and latencies")
    parser.add_argument("--ledger-limit", type=int, metavar="N", help="keep the newest N entries")
    parser.add_argument(
        "--stop-with-stdin", action="store_true", help="stop when stdin ends: die with the parent"
    )
    return parser


def _serve(arguments: list[str]) -> None:
    from nightscreen.sandbox.server import serve  # noqa: PLC0415 - the batch command needs no server

    parser = serve_parser()
    chosen = parser.parse_args(arguments)
    try:
        serve(
            host=chosen.host,
            port=chosen.port,
            scenario=chosen.scenario,
            api_key=chosen.api_key,
            balance=chosen.balance,
            seed=chosen.seed,
            ledger_limit=chosen.ledger_limit,
            stop_with_stdin=chosen.stop_with_stdin,
        )
    except (OSError, ValueError) as fault:
        parser.error(str(fault))


def main(arguments: list[str]) -> None:
    """Run the command that the arguments name."""
    if arguments[:1] == ["batch"]:
        _batch(arguments[1:])
    else:
        _serve(arguments)


def _batch(arguments: list[str]) -> None:
    from nightscreen.sandbox.batch import make_batch  # noqa: PLC0415 - the server needs no batches

    parser = argparse.ArgumentParser(prog="python -m nightscreen.sandbox batch")
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--damage-pct", type=float, default=2.0)
    parser.add_argument("output", metavar="OUT.csv", type=Path)
    parser.add_argument("--today", type=date.fromisoformat, help="YYYY-MM-DD, default today")
    chosen = parser.parse_args(arguments)
    try:
        facts = make_batch(
            chosen.output,
            rows=chosen.rows,
            seed=chosen.seed,
            damage_pct=chosen.damage_pct,
            today=chosen.today,
        )
    except (OSError, ValueError) as fault:
        parser.error(str(fault))
    sys.stdout.write(f"{json.dumps(facts.as_json(), indent=2)}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
