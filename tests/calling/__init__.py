"""Tests of nightscreen/calling."""
