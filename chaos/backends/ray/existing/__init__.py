"""A Ray cluster that chaos did not start.

Its nodes are hosts of their own, perhaps, and other people's: an agent goes to
a node when the job's workers are there, does nothing to any other, heals what
it did when its lease lapses, and is gone when the run is over.
"""
