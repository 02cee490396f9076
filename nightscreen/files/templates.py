"""Jinja environments for all pages and texts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jinja2 import Environment, FileSystemLoader, StrictUndefined

if TYPE_CHECKING:
    from pathlib import Path


def html_templates(folder: Path) -> Environment:
    """Return the environment for a folder's HTML pages: values are escaped, unknown names fail."""
    return _templates(folder, escapes=True)


def text_templates(folder: Path) -> Environment:
    """Return the environment for a folder's plain texts, without escaping."""
    return _templates(folder, escapes=False)


def _templates(folder: Path, *, escapes: bool) -> Environment:
    return Environment(
        loader=FileSystemLoader(folder),
        autoescape=escapes,  # noqa: S701 - plain text needs none
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
