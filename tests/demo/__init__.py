"""The demonstration, looked at as a newcomer does and checked against the simulator's people."""
