"""Disk: tables in and out, rows refused, the journal, tokens. Knows shapes, never the engine.

Judging values belongs to `steps/`, talking to the service to `client/`.
"""
