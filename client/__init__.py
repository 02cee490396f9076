"""The service's interface: pure wire format, one table that judges exchanges, retries, sockets.

What does not belong here: what a row may be asked (`steps/`), what an answer is worth remembering
(`storage/`), and money that is not on the wire. `client/transport.py` alone opens sockets.
"""
