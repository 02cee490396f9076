"""What a value of a file means: judged, repaired or refused, one column at a time."""
