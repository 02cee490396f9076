"""Tests of nightscreen/runs."""
