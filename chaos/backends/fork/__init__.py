"""Plans without a cluster: Ray Train's own code, over a core of forked processes.

A zygote imports torch, ray.train and the user's script once, and forks: a
driver for each run, at the script's `fit()`; the workers of each attempt. In
the driver runs Ray's own TrainController, in the workers Ray's own
RayTrainWorker; what they ask of Ray's core (`ray.get`, actors, placement
groups) is answered by `core`, with real processes, files, sockets and signals.
So commits, retention, retry budgets and preemptions are Ray's, not a model of
them. What needs a scheduler or Ray Data is refused by name.
"""
