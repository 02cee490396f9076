"""Tests of what is erased, purged, shown and explained of a person, over every room."""
