"""Money: caps, balances and the order of spending, compared with the service's own ledger."""
