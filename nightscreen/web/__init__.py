"""Shared by desk and portal: the guard of every request, forms, and serving."""
