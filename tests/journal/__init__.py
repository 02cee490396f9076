"""Tests of nightscreen/journal."""
