"""The web pages customers meet: consent, callback, one-time password.

Decisions are made in `steps/`, storage is in `storage/`. No address, log or page contains a secret.
"""
