"""Losses planted in the user's own job after a pass, to show what the audit would have caught."""
