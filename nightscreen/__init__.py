"""Batch risk screening for lenders: rows in, enriched rows and an account of every naira out.

The folders stand at the top of the repository; the links beside this file bring them under the one
name that is installed. What each of them holds is in `docs/architecture.md`.
"""
