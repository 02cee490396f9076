"""The simulator of the paid service: its wire, its people, its wallet and its ledger.

Here lives everything that stands in for the service when nightscreen is tried, tested or
measured. Nothing here is used in real runs, and nothing here is imported from the rest of the
project: the simulator is a second reading of the specification, kept apart on purpose.
"""
