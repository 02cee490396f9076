"""`nightscreen sandbox`: the simulator of the service, on this machine."""

from __future__ import annotations

from nightscreen.schemas.errors import UsageError


def run_sandbox(port: int, scenario: str) -> None:
    """Serve the simulator until it is stopped.

    Raises:
        UsageError: there is no such scenario, or the port cannot be had.
    """
    from nightscreen.sandbox.scenarios import SCENARIOS
    from nightscreen.sandbox.server import serve

    if scenario not in SCENARIOS:
        raise UsageError(f"--scenario: {scenario} is none of {', '.join(SCENARIOS)}")
    try:
        serve(port=port, scenario=scenario)
    except OSError as error:
        raise UsageError(
            f"--port: {port} cannot be had ({error.strerror}); choose another, or 0 for a free one"
        ) from None
