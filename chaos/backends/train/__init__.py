"""The part of chaos inside Ray Train, on either core: observer, probe, and the driver's part.

A backend puts the run's address into the environment (`RunAddress`). By it, observer and
probe connect to the chaos controller, and write their journals. Private names of Ray Train
are in `compat` alone.
"""
