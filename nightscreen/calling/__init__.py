"""The calls of a run: lanes, stops, and how one process or several share them."""
