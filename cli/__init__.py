"""The command line: one module for each group of commands, each thin.

The engine is imported only by commands that run a flow; the others start at once.
"""
