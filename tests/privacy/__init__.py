"""Nobody's data where it does not belong: marked people screened, then everything searched."""
