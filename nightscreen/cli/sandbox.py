"""`nightscreen sandbox`: the simulator of the service, on this machine."""

from __future__ import annotations

from nightscreen.cli.command import command
from nightscreen.sandbox.server import serve

sandbox = command("sandbox --port 8800 --scenario flaky")(serve)
