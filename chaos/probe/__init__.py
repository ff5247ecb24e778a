"""The watch over torch in a worker: steps, saves, loads, states; it knows nothing of Ray."""
