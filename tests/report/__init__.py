"""Tests of nightscreen/report."""
