"""Shifts the clock of a process of the tests."""
