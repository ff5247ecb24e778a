"""The run's storage, wrapped: what it wraps to the last answer, until a storage fault is due.

Only a run whose plan has a storage fault gets it. It travels by pickle into
Ray's controller and every worker, and imports pyarrow, which the rest of
`chaos.backends.train` does not.
"""
