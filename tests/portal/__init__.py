"""The pages customers meet."""
