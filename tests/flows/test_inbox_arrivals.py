"""Files arriving while the inbox is watched: copied slowly, renamed into place, left by others."""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path

import pytest

from nightscreen.config.parameters import WatchInbox
from nightscreen.config.settings import Settings, read_settings
from nightscreen.files.inbox import Inbox
from nightscreen.tasks.inbox import open_watch

SETTLE_S = 0.15


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return read_settings(
        base_url="http://127.0.0.1:1",
        api_key="k",
        home=tmp_path / "home",
        inbox=tmp_path / "inbox",
        inbox_settle_s=SETTLE_S,
    )


async def _arrivals(settings: Settings, number: int, *, once: bool = False) -> dict[str, bytes]:
    """Return the content of the files as they were taken; once so many are, the watch ends."""
    watch = open_watch(WatchInbox(), settings, forever=not once, tell=lambda _: None)
    found: dict[str, bytes] = {}
    async for ticket in watch.tickets():
        found[ticket.name] = ticket.file.read_bytes()
        watch.stopped = len(found) == number
    return found


def test_files_are_taken_whole_however_they_are_copied(settings: Settings) -> None:
    """One is cut in a line at first, one grows in stalls longer than it takes to settle.

    One is renamed into place.
    """
    inbox = Inbox.open(settings.inbox, settings.home).path
    lines = [b"customer_id,bvn\n", *(b"C%d,2200000000%d\n" % (n, n) for n in range(4))]
    whole = b"".join(lines)
    (inbox / "cut.csv").write_bytes(whole[:-4])

    def copy() -> None:
        time.sleep(3 * SETTLE_S)  # nobody has it open, as where a share's copy was interrupted
        with (inbox / "cut.csv").open("ab") as file:
            file.write(whole[-4:])
        with (inbox / "slow.csv").open("wb", buffering=0) as file:
            for line in lines:
                file.write(line)
                time.sleep(3 * SETTLE_S)
        (inbox / "next.csv.part").write_bytes(whole)
        (inbox / "next.csv.part").rename(inbox / "next.csv")

    copying = threading.Thread(target=copy)
    copying.start()
    found = asyncio.run(_arrivals(settings, 3))
    copying.join()
    assert found == dict.fromkeys(("cut.csv", "slow.csv", "next.csv"), whole)


def test_a_watch_for_once_ends_by_itself(settings: Settings) -> None:
    """With what lay there, also what lies there without its end; an empty inbox ends it at once."""
    assert asyncio.run(_arrivals(settings, 99, once=True)) == {}
    (settings.inbox / "a.csv").write_bytes(b"customer_id\nC1\n")
    (settings.inbox / "b.csv").write_bytes(b"customer_id\nC1")
    assert set(asyncio.run(_arrivals(settings, 99, once=True))) == {"a.csv", "b.csv"}


def test_a_file_that_another_watcher_left_comes_first(settings: Settings) -> None:
    """It was taken before those that lie there now."""
    inbox = Inbox.open(settings.inbox, settings.home)
    (inbox.path / "old.csv").write_bytes(b"customer_id\nC1\n")
    ticket = inbox.claim("old.csv", "old.csv", "t")
    assert ticket is not None
    ticket.release()
    (inbox.path / "new.csv").write_bytes(b"customer_id\nC2\n")
    assert list(asyncio.run(_arrivals(settings, 2))) == ["old.csv", "new.csv"]
