"""The page `docs/coverage.md`: each item of the specification, where it lives, what holds it."""
