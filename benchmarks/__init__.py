"""Benchmarks: each prints a table and says how to read it."""
