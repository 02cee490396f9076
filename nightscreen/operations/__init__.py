"""Runs that call the service person by person: BVN consent, loans, transactions, cash flow."""
