"""Work on many runs: search, comparison, the planted bugs, soak, and the trend of suites."""
