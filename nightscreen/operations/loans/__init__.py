"""Loan offers, tracking of loans, and the import of a loan book."""
