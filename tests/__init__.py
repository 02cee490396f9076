"""Tests, laid out like the project."""
