"""The simulator of the paid service: its wire, its people, its wallet and its ledger.

This package replaces the service when nightscreen is tried, tested or measured. It is not used in
real runs and imports nothing from the rest of the project: the simulator is a second reading of the
specification, separate on purpose.
"""
