"""Prefect flows: each reads from top to bottom as the line it carries out.

A flow opens its resources, awaits tasks and closes what it opened; it computes nothing itself.
"""

from nightscreen.files.memory_tuning import choose_allocator, collect_seldom

collect_seldom()
choose_allocator()  # a worker starts flows past the command line; nothing has loaded Arrow yet
