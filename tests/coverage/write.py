"""`python -m tests.coverage.write`: write `docs/coverage.md` anew."""

from __future__ import annotations

from tests.coverage.page import PAGE, page

if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
