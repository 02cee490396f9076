"""Tests of nightscreen/files."""
