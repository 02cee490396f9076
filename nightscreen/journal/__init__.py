"""The journal: every paid call, its answer, and the money, in one database.

`open_journal` gives a `Journal`, `journal_of` the one that settings name; its parts are `calls`
(intents and outcomes), `answers`, `money` (caps and spending) and `runs`. What a row needs and in
which order is decided in `planning/`.
"""

from nightscreen.journal.opening import Journal, journal_of, open_journal

__all__ = ["Journal", "journal_of", "open_journal"]
