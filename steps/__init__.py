"""The stations of the line, one module each. No engine here; only `lookups` reaches the outside."""
