"""Ray's settings for a run, with times short enough for a laptop.

Each value can be overridden by the environment or by the scenario's `job.env`;
the report prints those that were in force.
"""

NAMESPACE = "chaos"

# Read by Ray Train in the driver, and passed on by it to controller and workers (Ray 2.60).
TRAIN_ENV = {
    "RAY_TRAIN_HEALTH_CHECK_INTERVAL_S": "0.1",
    "RAY_TRAIN_PREEMPTION_POLL_INTERVAL_S": "0.2",
    "RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S": "15",
}

# Read by raylets and by torch, so they must be there before a cluster starts.
CLUSTER_ENV = {
    "TORCH_PROCESS_GROUP_SHUTDOWN_TIMEOUT_S": "3",
    "RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S": "0",
    "RAY_DEDUP_LOGS": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}

# A node that does not answer counts as dead within about two seconds instead of about a minute.
HEALTH_CHECKS = {
    "health_check_initial_delay_ms": 0,
    "health_check_period_ms": 300,
    "health_check_timeout_ms": 1000,
    "health_check_failure_threshold": 5,
}
