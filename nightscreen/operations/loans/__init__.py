"""Loan offers and loans followed."""
