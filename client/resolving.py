"""Addresses of host names: looked up in DNS, many at once, within a time limit.

Names are only looked up; no connection is made. What an address means is decided in `steps/`.
"""

from __future__ import annotations

import queue
import socket
import threading
import time
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nightscreen.client.network import Network

AT_ONCE = 16
"""Names looked up side by side."""

_NO_SUCH_NAME = frozenset(
    getattr(socket, name) for name in ("EAI_NONAME", "EAI_NODATA") if hasattr(socket, name)
)


class Resolver(Protocol):
    """Looks up one host name."""

    def __call__(self, host: str) -> tuple[str, ...] | None:
        """Return its addresses; none where there is no such name; None if it is not known."""


def resolve_host(host: str) -> tuple[str, ...] | None:
    """Look up a host name unchanged, without the search domains of this machine's own network.

    Returns:
        Its addresses; none where there is no such name; None if no name server answered.
    """
    try:
        found = socket.getaddrinfo(f"{host.rstrip('.')}.", 443, type=socket.SOCK_STREAM)
    except socket.gaierror as error:
        return () if error.errno in _NO_SUCH_NAME else None
    except (OSError, UnicodeError):
        return None
    return tuple(sorted({str(entry[4][0]) for entry in found}))


def resolver_for(network: Network) -> Resolver:
    """Return what looks names up on this machine's way to others.

    Behind a proxy the names of the world may be unknown here and known there: that one cannot be
    found is then no evidence. No connection is made, so the proxy is not used.
    """
    if not network.proxy:
        return resolve_host

    def resolve(host: str) -> tuple[str, ...] | None:
        return resolve_host(host) or None

    return resolve


def resolve_hosts(
    hosts: Sequence[str], resolve: Resolver, *, patience_s: float
) -> dict[str, tuple[str, ...] | None]:
    """Look up each host once, side by side, and return what is known when the time is up.

    A name server that does not answer holds nobody up: its threads are left behind.

    Args:
        hosts: different host names.
        resolve: looks up one.
        patience_s: seconds to wait for all of them.
    """
    found: dict[str, tuple[str, ...] | None] = dict.fromkeys(hosts)
    to_do: queue.SimpleQueue[str] = queue.SimpleQueue()
    done: queue.SimpleQueue[tuple[str, tuple[str, ...] | None]] = queue.SimpleQueue()
    for host in found:
        to_do.put(host)
    ends_at = time.monotonic() + patience_s
    for _ in range(min(AT_ONCE, len(found))):
        threading.Thread(target=_work, args=(to_do, done, resolve, ends_at), daemon=True).start()
    for _ in range(len(found)):
        try:
            host, addresses = done.get(timeout=max(0.0, ends_at - time.monotonic()))
        except queue.Empty:
            break
        found[host] = addresses
    return found


def _work(
    to_do: queue.SimpleQueue[str],
    done: queue.SimpleQueue[tuple[str, tuple[str, ...] | None]],
    resolve: Resolver,
    ends_at: float,
) -> None:
    """Look up names until none is left or the time is up."""
    while time.monotonic() < ends_at:
        try:
            host = to_do.get_nowait()
        except queue.Empty:
            return
        done.put((host, resolve(host)))
