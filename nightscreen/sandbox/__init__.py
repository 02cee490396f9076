"""The simulator of the paid service: its operations, people, wallet and ledger.

This package replaces the service when nightscreen is tried, tested or measured. It is not used in
real runs. It imports nothing from the rest of the project, because it is meant to be an independent
implementation of the specification.
"""
