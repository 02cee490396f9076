"""The web pages customers meet: consent, callback, one-time password.

Decisions are made in `operations/`, data is stored by `journal/`. No address, log or page contains a
secret.
"""
