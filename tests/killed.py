"""A night killed by SIGKILL in mid-asking, at a call of the test's choice, in a process of its own.

The process is a fork of the test, which costs milliseconds where a new one costs seconds. What its
service has seen by then comes back in a file, since the service lives in the same process.
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
from tests.screening import World

_DONE, _FAILED = 0, 1


class _Deadly(httpx.AsyncBaseTransport):
    """Passes calls on to a service, and kills this process at one of them."""

    def __init__(
        self, to: httpx.AsyncBaseTransport, at_call: int, save: Callable[[], None], *, heard: bool
    ) -> None:
        self._to, self._left, self._save, self._heard = to, at_call, save, heard

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self._left -= 1
        last = self._left == 0
        if not last or self._heard:
            response = await self._to.handle_async_request(request)
        if last:
            self._save()
            os.kill(os.getpid(), signal.SIGKILL)
        return response


def is_killed(
    world: World, night: Callable[[], object], *, at_call: int, heard: bool = True
) -> bool:
    """Screen in a process that is killed; return False where the night ended before that call.

    Args:
        world: where the night is spent; its sandbox is afterwards what the service then was.
        night: screens, in that world.
        at_call: the call at which the process dies, from 1.
        heard: whether the service carries that call out and charges it; it never hears of it else.

    Raises:
        AssertionError: the night failed by itself; what it said is on stderr.
    """
    saved = world.folder / "sandbox.pickle"
    child = os.fork()
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
    """Spend the night in this process, to its end or the call that kills it."""
    sandbox: Sandbox = world.sandbox

    def save() -> None:
        saved.write_bytes(pickle.dumps(sandbox))

    through = world.transport
    world.transport = lambda: _Deadly(through(), at_call, save, heard=heard)  # type: ignore[method-assign]
    try:
        night()
        save()
    except BaseException:  # noqa: BLE001 - whatever it is, the process ends here
        traceback.print_exc()
        sys.stderr.flush()
        return _FAILED
    return _DONE
