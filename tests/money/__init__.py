"""Money: caps, books and the order of spending, held against the ledger that knows the truth."""
