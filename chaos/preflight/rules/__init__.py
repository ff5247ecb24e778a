"""What can be said of settings without simulating: one rule, one id, one reason, one source.

`every` holds the table; `losses`, `saving` and `waiting` are its three parts.
"""
