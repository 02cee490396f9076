"""From answers to rows: evidence, decisions, changes, and the list that people work through."""
