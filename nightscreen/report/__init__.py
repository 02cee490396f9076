"""The report of a run, for programs and for people; it decides nothing."""
