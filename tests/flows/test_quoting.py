"""A quote asked for in the engine's form says the cost and leaves nothing behind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from nightscreen.config.parameters import ScreenBatch
from nightscreen.flows.screen_batch import screen_batch
from nightscreen.sandbox.batch import make_batch

if TYPE_CHECKING:
    from pathlib import Path

    from nightscreen.sandbox.process import SandboxProcess

pytestmark = pytest.mark.engine


async def test_quote_asks_nothing_and_leaves_nothing(
    at_home: Path, sandbox: SandboxProcess
) -> None:
    """No call is made, and neither rows in the workspace nor a folder of results stay."""
    make_batch(at_home / "people.csv", rows=30, seed=606)
    asked = ScreenBatch(
        input=str(at_home / "people.csv"), output=str(at_home / "out"), quote_only=True
    )
    quote: Any = await screen_batch(asked)
    assert float(quote["quoted"]["expected"]) > 0
    assert sandbox.totals()["totals"]["requests"] == 0
    assert not (at_home / "out").exists()
    for kind in ("work", "quotes"):
        assert list((at_home / "home" / kind).iterdir()) == []
