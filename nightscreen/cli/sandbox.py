"""`nightscreen sandbox`: the simulator of the service, on this machine."""

from __future__ import annotations

from typing import Annotated

import typer

from nightscreen.cli.command import command
from nightscreen.sandbox.server import serve
from nightscreen.sandbox.state import SCENARIOS
from nightscreen.schemas.errors import UsageError


@command("sandbox --port 8800 --scenario flaky")
def sandbox(
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 takes a free one.")] = 8800,
    scenario: Annotated[str, typer.Option(help=f"{', '.join(SCENARIOS)}.")] = "calm",
    host: Annotated[
        str, typer.Option(help="Address to listen on; its controls have no key: stay on loopback.")
    ] = "127.0.0.1",
    api_key: Annotated[str, typer.Option(help="The only key that is right.")] = "sandbox-key",
    balance: Annotated[
        str, typer.Option(metavar="NAIRA", help="The wallet's opening balance.")
    ] = "1000000",
    seed: Annotated[int, typer.Option(help="Chooses faults and latencies.")] = 0,
    ledger_limit: Annotated[
        int | None, typer.Option(min=1, help="Keep the newest N entries of the ledger.")
    ] = None,
    stop_with_stdin: Annotated[
        bool, typer.Option("--stop-with-stdin", help="Stop when stdin ends: die with the parent.")
    ] = False,
) -> None:
    """Run the simulator of the service on this machine."""
    if scenario not in SCENARIOS:
        raise UsageError(f"--scenario: {scenario} is none of {', '.join(SCENARIOS)}")
    try:
        serve(
            host=host,
            port=port,
            scenario=scenario,
            api_key=api_key,
            balance=balance,
            seed=seed,
            ledger_limit=ledger_limit,
            stop_with_stdin=stop_with_stdin,
        )
    except OSError as error:
        raise UsageError(
            f"--port: cannot listen on {host}:{port} ({error.strerror}); choose another port, or 0 "
            "for a free one"
        ) from None
    except ValueError as error:
        raise UsageError(f"--balance: {error}") from None
