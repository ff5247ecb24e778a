"""A finding's reproduction for others: in a zip with its script, or among one's scenarios."""
