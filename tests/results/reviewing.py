"""Reviews as a list brings them, without a file and without a desk."""

from __future__ import annotations

from nightscreen.config.settings import read_settings
from nightscreen.journal import Journal
from nightscreen.journal.actor import Actor
from nightscreen.results.reviews import Imported, import_reviews
from nightscreen.schemas.decisions import ReviewRow


def filled(customer_id: str, run_id: str, decision: str, line: int = 2, **others: str) -> ReviewRow:
    """Return a row of a list that came back, filled in by Ngozi Eze."""
    cells = {
        "customer_id": customer_id,
        "run_id": run_id,
        "reviewer_decision": decision,
        "reviewer": "Ngozi Eze",
        "review_note": "Letter seen.",
    }
    return ReviewRow(line, "", cells | others)


def save(journal: Journal, *rows: ReviewRow, partial: bool = False) -> Imported:
    """Save reviews, as a command does."""
    given = {"base_url": "http://127.0.0.1:1", "api_key": "sandbox-key"}
    settings = read_settings(_env_file=None, home=journal.home, **given)
    return import_reviews(journal, Actor.by_command(settings), rows, settings, partial=partial)
