"""A check of another package, installed beside nightscreen."""
