"""Processes of the operating system: forked on request, watched, ended; no Ray, no torch."""
