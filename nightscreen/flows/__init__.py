"""Prefect flows. A flow opens resources, awaits tasks and closes; it computes nothing itself."""

from nightscreen.files.memory_tuning import choose_allocator, collect_seldom

collect_seldom()
choose_allocator()  # a worker does not use the command line; nothing has loaded Arrow yet
