"""Tests of nightscreen/operations."""
