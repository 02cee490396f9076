"""Standard nights, screened once and read by many tests, and their saved outputs."""
