"""What can be said of settings without simulating: one rule, one id, one reason, one source."""
