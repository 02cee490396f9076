"""Standard nights, screened once and read by many tests, and the measure of what they write."""
