"""A run in a separate process that is killed by SIGKILL at a call chosen by the test.

The process is a fork of the test, which takes milliseconds instead of seconds. The sandbox runs in
the same process; its state returns to the test in a file.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

import httpx

from nightscreen.sandbox.state import Sandbox
from tests.forked import fork
from tests.screening import World

_DONE, _FAILED = 0, 1


class _Deadly(httpx.AsyncBaseTransport):
    """Forwards calls to a service, and kills this process at one of them."""

    def __init__(
        self, to: httpx.AsyncBaseTransport, at_call: int, save: Callable[[], None], *, heard: bool
    ) -> None:
        self._to, self._calls_left, self._save, self._heard = to, at_call, save, heard

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self._calls_left -= 1
        is_last = self._calls_left == 0
        if not is_last or self._heard:
            response = await self._to.handle_async_request(request)
        if is_last:
            self._save()
            os.kill(os.getpid(), signal.SIGKILL)
        return response


def is_killed(
    world: World, night: Callable[[], object], *, at_call: int, heard: bool = True
) -> bool:
    """Screen in a process that is killed; return False if the run ended before that call.

    Args:
        world: where the run takes place; afterwards its sandbox has the state at the kill.
        night: screens, in that world.
        at_call: the call at which the process dies, from 1.
        heard: whether that call reaches the service, which executes and charges it.

    Raises:
        AssertionError: the run failed by itself; its traceback is on stderr.
    """
    saved = world.folder / "sandbox.pickle"
    child = fork()
    if not child:
        os._exit(_carry(world, night, saved, at_call, heard=heard))
    _, status = os.waitpid(child, 0)
    killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
    assert killed or os.waitstatus_to_exitcode(status) == _DONE, "the night failed by itself"
    world.sandbox = pickle.loads(saved.read_bytes())  # noqa: S301 - written by this module
    saved.unlink()
    return killed


def _carry(
    world: World, night: Callable[[], object], saved: Path, at_call: int, *, heard: bool
) -> int:
    """Screen in this process, to the end or to the call that kills it; return the exit status."""
    sandbox: Sandbox = world.sandbox

    def save() -> None:
        saved.write_bytes(pickle.dumps(sandbox))

    transport = world.transport
    world.transport = lambda: _Deadly(transport(), at_call, save, heard=heard)  # type: ignore[method-assign]
    try:
        night()
        save()
    except BaseException:  # noqa: BLE001 - the forked process must end here
        traceback.print_exc()
        sys.stderr.flush()
        return _FAILED
    return _DONE
