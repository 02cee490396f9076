"""Flame graphs of a cold and a warm night: where the line's CPU goes.

`python -m benchmarks.flame FOLDER [--rows N]` writes `cold.svg` and `warm.svg`. The main thread is
sampled on every five milliseconds of the process's CPU; what its journal thread does meanwhile
shows under whatever the main thread was at. Boxes below half a per cent are left out.
"""

from __future__ import annotations

import argparse
import html
import signal
import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Self

import uvloop

from benchmarks.measured import load_words
from nightscreen.config.parameters import ScreenBatch
from nightscreen.sandbox.batch import make_batch
from nightscreen.sandbox.process import SandboxProcess
from tests.kill.drive import screen, settings_for

if TYPE_CHECKING:
    from types import FrameType

EVERY_S = 0.005
LEAST = 0.005
WIDTH, HEIGHT = 1200, 15
DEEPEST = 60

Stack = tuple[str, ...]


class Sampler:
    """Counts stacks of the main thread while its block runs."""

    def __init__(self) -> None:
        self.stacks: Counter[Stack] = Counter()

    def __enter__(self) -> Self:
        signal.signal(signal.SIGPROF, self._sample)
        signal.setitimer(signal.ITIMER_PROF, EVERY_S, EVERY_S)
        return self

    def __exit__(self, *_exc: object) -> None:
        signal.setitimer(signal.ITIMER_PROF, 0)

    def _sample(self, _number: int, frame: FrameType | None) -> None:
        names: list[str] = []
        while frame is not None:
            code = frame.f_code
            names.append(f"{Path(code.co_filename).stem}.{code.co_name}")
            frame = frame.f_back
        self.stacks[tuple(reversed(names))] += 1


def drawn(stacks: Counter[Stack], title: str) -> str:
    """Return an SVG of stacks, roots on top."""
    total = sum(stacks.values())
    boxes: list[str] = []
    lowest = 0

    def draw(below: Counter[Stack], depth: int, left: float) -> None:
        nonlocal lowest
        lowest = max(lowest, depth)
        heads: dict[str, Counter[Stack]] = {}
        for stack, count in below.items():
            if stack:
                heads.setdefault(stack[0], Counter())[stack[1:]] += count
        for head, rest in sorted(heads.items()):
            share = sum(rest.values()) / total
            if share >= LEAST and depth < DEEPEST:
                boxes.append(_box(head, depth, left, share))
                draw(rest, depth + 1, left)
            left += share

    draw(stacks, 1, 0.0)
    height = (lowest + 1) * HEIGHT
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        f'font-family="monospace" font-size="10"><text x="2" y="11">{html.escape(title)}: '
        f"{total} samples</text>{''.join(boxes)}</svg>\n"
    )


def _box(name: str, depth: int, left: float, share: float) -> str:
    x, y, wide = left * WIDTH, depth * HEIGHT, share * WIDTH
    shown = html.escape(name[: int(wide / 6.2)])
    return (
        f'<g><title>{html.escape(name)} {share:.1%}</title><rect x="{x:.1f}" y="{y}" '
        f'width="{wide:.1f}" height="{HEIGHT - 1}" fill="hsl({20 + 25 * (depth % 2)},80%,75%)"/>'
        f'<text x="{x + 2:.1f}" y="{y + 11}">{shown}</text></g>'
    )


def widest(stacks: Counter[Stack], most: int = 12) -> list[tuple[str, float]]:
    """Return the functions with the largest share of their own."""
    own: Counter[str] = Counter()
    for stack, count in stacks.items():
        own[stack[-1]] += count
    total = sum(own.values())
    return [(name, count / total) for name, count in own.most_common(most)]


def main() -> None:
    """Run two nights of one batch and draw them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, default=2000)
    given = parser.parse_args()
    caps = dict.fromkeys(("bank_account", "karma", "ecosystem"), 50)
    with tempfile.TemporaryDirectory() as below, SandboxProcess(balance="900000000") as sandbox:
        sandbox.post("/_sandbox/latency", {"kind": "none"})
        file, out = Path(below) / "in.csv", str(Path(below) / "out")
        make_batch(file, rows=given.rows, seed=1)
        home = Path(below) / "home"
        settings = settings_for(home, sandbox.url, sandbox.api_key, max_in_flight=caps)
        wanted = ScreenBatch(input=str(file), batch="night", output=out)
        for night in ("cold", "warm"):
            words = load_words()
            with Sampler() as sampler:
                screen(wanted, settings, run_loop=uvloop.run)
            title = f"{night} night, {given.rows} rows, {words}"
            (given.folder / f"{night}.svg").write_text(drawn(sampler.stacks, title))
            print(title)
            for name, share in widest(sampler.stacks):
                print(f"  {share:6.1%}  {name}")


if __name__ == "__main__":
    main()
