"""The web pages customers meet: consent, callback, one-time password.

Decisions are made in `operations/`, storage is in `journal/`. No address, log or page contains a
secret.
"""
