"""`nightscreen sandbox`: the simulator of the service, on this machine."""

from __future__ import annotations


def run_sandbox(port: int, scenario: str) -> None:
    """Serve the simulator until it is stopped."""
    from sandbox.server import serve

    serve(port=port, scenario=scenario)
