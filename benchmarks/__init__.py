"""Benchmarks: each prints a table and says how to read it."""

from nightscreen.files.memory_tuning import choose_allocator, collect_seldom

collect_seldom()
choose_allocator()  # as the command line does, before anything loads Arrow
