"""A Ray cluster that chaos did not start.

Its nodes may be separate hosts that other people use. An agent is started on a
node only when workers of the job are there. It undoes its faults when its lease
lapses, and it ends with the run.
"""
