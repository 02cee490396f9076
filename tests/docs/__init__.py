"""The documentation held against the code: generated pages, examples that run, links that lead."""
