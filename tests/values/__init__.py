"""Tests of nightscreen/values."""
