"""Transactions and accounts of customers who consented: pull, compare, store; cash flow."""
