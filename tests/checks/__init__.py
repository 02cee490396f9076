"""What a check declares, and what the loader refuses."""
