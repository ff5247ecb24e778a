"""The run's storage, wrapped: it behaves as the one inside until a storage fault is due.

Only a run whose plan has a storage fault gets it. It is pickled into Ray's
controller and every worker, and imports pyarrow, which the rest of
`chaos.probe` does not.
"""
