"""Prefect tasks: each calls a station of `runs/` and returns small numbers.

Paths and ids cross the engine, never rows.
"""
