"""Files in the inbox are taken once they no longer change, however they are copied."""

from __future__ import annotations

from collections.abc import Callable

from nightscreen.files.inbox import Stamp
from nightscreen.inbox.file_intake import LONGER, LOOKS, Settling

SETTLE_S = 5.0


def _yes(_: str) -> bool:
    return True


def _no(_: str) -> bool:
    return False


def _look(
    settling: Settling,
    now_s: float,
    *,
    whole: Callable[[str], bool] = _yes,
    written: Callable[[str], bool] = _no,
    **sizes: int,
) -> list[str]:
    seen = {name: Stamp(size, 1, 1) for name, size in sizes.items()}
    return settling.find_settled(seen, now_s, is_whole=whole, is_being_written=written)


def test_a_file_is_taken_after_several_looks_and_long_enough() -> None:
    """Neither many quick looks nor one long pause are enough."""
    settling = Settling(SETTLE_S)
    assert [_look(settling, second / 10, a=9) for second in range(20)] == [[]] * 20
    assert _look(settling, SETTLE_S, a=9) == ["a"]
    slow = Settling(SETTLE_S)
    assert [_look(slow, 100.0 * look, a=9) for look in range(LOOKS)] == [[], [], ["a"]]


def test_every_change_begins_the_wait_anew() -> None:
    """A copy that stalls and goes on is not taken in between, nor a file renamed over another."""
    settling = Settling(SETTLE_S)
    for second in range(40):
        assert _look(settling, second, a=1 + second // 4) == []
    other = {"a": Stamp(10, 1, 2)}  # the same size and time under another inode
    assert settling.find_settled(other, 44, is_whole=_yes, is_being_written=_no) == []
    assert settling.find_settled(other, 45, is_whole=_yes, is_being_written=_no) == []
    assert settling.find_settled(other, 50, is_whole=_yes, is_being_written=_no) == ["a"]


def test_a_file_that_is_empty_lacks_its_end_or_is_written_is_waited_for_longer() -> None:
    """Many programs make the file first; it is given up on at last, to be told what is wrong.

    One that somebody writes is never taken, however long the writer pauses.
    """
    for whole, size in ((_no, 9), (_yes, 0)):
        settling = Settling(SETTLE_S)
        for second in range(int(LONGER * SETTLE_S)):
            assert _look(settling, second, whole=whole, a=size) == []
        assert _look(settling, LONGER * SETTLE_S, whole=whole, a=size) == ["a"]
    settling = Settling(SETTLE_S)
    for look in range(10):
        assert _look(settling, 1000.0 * look, written=_yes, a=9) == []
    assert _look(settling, 10_001, a=9) == ["a"]


def test_who_came_first_is_taken_first() -> None:
    """A file that vanishes is forgotten, and waits anew where it comes back."""
    settling = Settling(SETTLE_S)
    _look(settling, 0, b=9)
    _look(settling, 1, b=9, a=9)
    _look(settling, 2, b=9, a=9)
    assert _look(settling, 9, b=9, a=9) == ["b", "a"]
    assert _look(settling, 10, a=9) == ["a"]
    assert settling.waits
    assert _look(settling, 11, b=9) == []
