"""Tests of nightscreen/inbox."""
