"""The cause of a recorded run, proven by giving it back: `chaos explain`."""
