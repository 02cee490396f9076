"""Prefect flows: each reads from top to bottom as the line it carries out.

A flow opens its resources, awaits tasks and closes what it opened; it computes nothing itself.
"""
