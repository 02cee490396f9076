"""The command line: one module for each subject, imported when its command is called."""
