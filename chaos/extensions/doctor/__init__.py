"""`chaos doctor`: the check of this machine for the needs of runs."""
