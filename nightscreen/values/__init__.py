"""Validate a file's values: accept, repair or refuse them, one column at a time."""
