"""Tests of nightscreen/planning."""
