"""The account of a run, for programs and for people; nothing is decided here."""
