"""Person by person: BVN consent, loans, transactions and cash flow."""
