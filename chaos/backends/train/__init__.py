"""What runs inside Ray Train, whichever core is under it: observer, probe, and the driver's part.

A backend says in the environment where the run is (`RunAddress`); these find
the chaos controller there and record what they see. Private names of Ray
Train are in `compat` alone.
"""
