"""The web pages customers meet: consent, callback, one-time password.

What a page decides is in `steps/`; what it keeps in `storage/`. Nothing secret stands in an
address, a log or a page.
"""
