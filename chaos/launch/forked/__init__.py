"""Plans without a cluster: Ray Train's own code, over a core of forked processes.

torch, ray.train and the user's script are imported once. A driver is forked for
each run, at the script's `fit()`, and workers for each attempt (`root` has a
drawing of all processes). The driver runs Ray's own TrainController, a worker
Ray's own RayTrainWorker. `core` answers their calls of Ray's core (`ray.get`,
actors, placement groups) with real processes, files, sockets and signals. So
commits, retention, retry budgets and preemptions are Ray's, not a model of
them. Calls that need a scheduler or Ray Data are refused by name.
"""
