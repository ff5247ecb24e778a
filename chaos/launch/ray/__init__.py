"""Plans on a real Ray cluster, started here or given by address.

`backend` runs in the harness, `driver` around the user's script, `callback`
(observer and probe) inside Ray Train's controller and workers, `actor` and
`agent` beside them. Private names of Ray are in `compat` alone.
"""
