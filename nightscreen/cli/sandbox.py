"""`nightscreen sandbox`: the simulator of the service, on this machine."""

from __future__ import annotations

from nightscreen.schemas.errors import UsageError


def run_sandbox(
    *,
    host: str,
    port: int,
    scenario: str,
    api_key: str,
    balance: str | None,
    seed: int,
    ledger_limit: int | None,
    stop_with_stdin: bool,
) -> None:
    """Serve the simulator until it is stopped.

    Raises:
        UsageError: there is no such scenario, the balance is no amount, or the port cannot be had.
    """
    from nightscreen.sandbox.server import serve
    from nightscreen.sandbox.state import SCENARIOS

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
            f"--port: {port} at {host} cannot be had ({error.strerror}); choose another, "
            "or 0 for a free one"
        ) from None
    except ValueError as error:
        raise UsageError(f"--balance: {error}") from None
