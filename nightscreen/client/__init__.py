"""The service's interface: pure wire format, one table that judges exchanges, retries, sockets.

What does not belong here: which lookups a row needs (`planning/`), storing answers (`journal/`),
and money that is not on the wire. `client/transport.py` alone opens sockets.
"""
