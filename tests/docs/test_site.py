"""The site builds without a warning, has every page, and loads nothing from the network."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.browser.chromium import chromium
from tests.docs.pages import DOCS, ROOT

LOADED = re.compile(
    r"""<(?:script|img|iframe|source|video)\b[^>]*\bsrc=["']?((?:https?:)?//[^"'\s>]+)"""
    r"""|<link\b[^>]*\bhref=["']?((?:https?:)?//[^"'\s>]+)"""
    r"""|@import\s+["']?((?:https?:)?//[^"'\s;]+)|url\(["']?((?:https?:)?//[^"')]+)""",
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the site as the checks do."""
    folder = tmp_path_factory.mktemp("site")
    mkdocs = str(Path(sys.executable).with_name("mkdocs"))
    built = subprocess.run(
        [mkdocs, "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    return folder


def test_every_page_is_in_the_navigation_and_loads_nothing_from_elsewhere(site: Path) -> None:
    """No font, script, style or picture; ordinary links are allowed."""
    nav = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2]
    listed = set(re.findall(r"[\w/-]+\.md\b", nav))
    pages = {str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md")}
    assert listed == pages
    assert all((site / page).with_suffix(".html").exists() for page in pages)
    for path in [*site.rglob("*.html"), *site.rglob("*.css")]:
        found = LOADED.search(path.read_text(encoding="utf-8"))
        assert found is None, f"{path.relative_to(site)}: {found and found[0]}"


@pytest.mark.browser
def test_a_browser_requests_only_files(site: Path) -> None:
    """In a real browser, opened from disk at a phone's width; every page shows its text."""
    asked: list[str] = []
    with chromium() as browser:
        page = browser.new_page(viewport={"width": 390, "height": 800})
        page.on("request", lambda request: asked.append(request.url))
        for name in ("index", "quickstart", "reference/columns", "paths/compliance"):
            page.goto((site / f"{name}.html").as_uri())
            assert len(page.inner_text("article")) > 500
            fits = "document.documentElement.scrollWidth <= window.innerWidth"
            assert page.evaluate(fits), name
    assert {url.partition(":")[0] for url in asked} == {"file"}
