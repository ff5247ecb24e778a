"""The clouds' instance metadata services, emulated for a job on this machine."""
