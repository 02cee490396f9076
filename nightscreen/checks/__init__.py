"""One module for each check, with its declaration."""
