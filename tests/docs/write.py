"""Write the generated pages and the notebook: `python -m tests.docs.write`, or `make docs`."""

from __future__ import annotations

from tests.docs.columns import columns_page
from tests.docs.commands import commands_page
from tests.docs.notebook import notebook
from tests.docs.pages import DOCS, REFERENCE
from tests.docs.settings import settings_page
from tests.docs.words import reasons_page, stops_page

PAGES = {
    REFERENCE / "commands.md": commands_page,
    REFERENCE / "settings.md": settings_page,
    REFERENCE / "columns.md": columns_page,
    REFERENCE / "reasons.md": reasons_page,
    REFERENCE / "stops.md": stops_page,
    DOCS / "analyse.ipynb": notebook,
}


def main() -> None:
    """Write every page."""
    REFERENCE.mkdir(exist_ok=True)
    for path, make in PAGES.items():
        path.write_text(make(), encoding="utf-8")


if __name__ == "__main__":
    main()
