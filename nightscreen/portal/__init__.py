"""Web pages for customers: consent, callback, one-time password; `operations/` decides."""
