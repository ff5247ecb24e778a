"""The part of chaos inside Ray Train, on a cluster or embedded: driver, observer, callback.

A launcher puts the run's address into the environment (`probe.address`). By it, observer and
probe connect to the chaos controller, and write their journals. Private names of Ray Train
are in `compat` alone.
"""

CALLBACK = "chaos.launch.raytrain.callback.ChaosCallback"  # for RAY_TRAIN_CALLBACKS
