"""Broken behaviours: what the tests must notice, whatever the code inside looks like."""
