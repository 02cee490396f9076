"""Templates of a folder, as every page and text of the product reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jinja2 import Environment, FileSystemLoader, StrictUndefined

if TYPE_CHECKING:
    from pathlib import Path


def html_templates(folder: Path) -> Environment:
    """Return what renders the pages of a folder: values escaped, an unknown name an error."""
    return _templates(folder, escapes=True)


def text_templates(folder: Path) -> Environment:
    """Return what renders plain texts, which no browser takes for a page."""
    return _templates(folder, escapes=False)


def _templates(folder: Path, *, escapes: bool) -> Environment:
    return Environment(
        loader=FileSystemLoader(folder),
        autoescape=escapes,  # noqa: S701 - a text that is no page needs none
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
