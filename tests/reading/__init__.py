"""Tests of nightscreen/reading."""
