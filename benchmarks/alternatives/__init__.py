"""What a lender would write instead: the same lookups by other means, each a program of its own.

Each takes a service, a key, a CSV of customers and a folder, asks about every customer once, leaves
its answers in the folder where its kind of program would, and prints calls and CPU. None keeps a
journal, a spending cap or an account of what was charged; none tells "never sent" from "may have
been charged". They run in an environment of their own (`benchmarks/requirements.txt`).
"""
