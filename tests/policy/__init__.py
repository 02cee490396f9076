"""Tests of nightscreen/policy."""
