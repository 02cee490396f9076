"""The command line: one module for each group of commands, each thin.

The engine is imported only by commands that run a flow; the others start at once.
"""

STOPPED = "stopped before anything was asked; nothing was spent"
"""What Ctrl-C is answered by while a command still loads."""
