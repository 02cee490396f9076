"""Tests of what desk and portal share."""
