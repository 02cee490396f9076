"""What is built and installed."""
