"""Benchmarks: each prints a table and says how to read it."""

from nightscreen.files.memory_tuning import choose_allocator

choose_allocator()  # as the command line does, before anything loads Arrow
