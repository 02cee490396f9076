"""Tests of nightscreen/results."""
