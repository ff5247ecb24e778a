"""Names for scenarios, in one line each and in full: `chaos list`."""
