"""The policy language: read, checked, explained, evaluated, tried on past runs."""
