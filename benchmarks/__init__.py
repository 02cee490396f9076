"""Benchmarks: each prints a table, and its docstring explains how to read it."""

from nightscreen.files.memory_tuning import choose_allocator, collect_seldom

collect_seldom()
choose_allocator()  # like the command line, before anything loads Arrow
