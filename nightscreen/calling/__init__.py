"""The calls of a run: rounds, shards, windows, and how one process or several share them."""
