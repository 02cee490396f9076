"""The meaning of a file's values: accepted, repaired or refused, one column at a time."""
