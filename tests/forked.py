"""Another process of a test: a fork, which has everything loaded and starts in milliseconds."""

from __future__ import annotations

import gc
import os
import signal
import traceback
from collections.abc import Callable
from typing import Self


def fork() -> int:
    """Fork this process; return the child's id, or 0 in the child.

    What threads and connections of this process left is not collected in the child, which has none
    of them.
    """
    child = os.fork()
    if not child:
        gc.freeze()
    return child


class Forked:
    """A fork of this process that does some work, and tells what it returns.

    It lives until it is killed; the end of a `with` kills it.

    Args:
        work: runs there; returns what is told.
    """

    def __init__(self, work: Callable[[], str]) -> None:
        self._told, writing = os.pipe()
        self.pid = fork()
        if not self.pid:
            try:
                os.write(writing, work().encode())
                os.close(writing)
                signal.pause()
            except BaseException:  # noqa: BLE001 - the forked process must end here
                traceback.print_exc()
            finally:
                os._exit(1)
        os.close(writing)

    def told(self) -> str:
        """Wait for the end of the work; return what it told, nothing if it failed."""
        with open(self._told, "rb", closefd=False) as file:
            return file.read().decode()

    def kill(self) -> None:
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
            self.pid = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        os.close(self._told)
