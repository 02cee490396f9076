"""The command line: one module per subject, imported when one of its commands is called."""
