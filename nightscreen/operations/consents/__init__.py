"""Consent of customers to share their transactions: links, codes and grants."""
