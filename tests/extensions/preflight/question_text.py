"""A question, as a file has it; also for tests without preflight."""

QUESTION = """\
preflight: a model on eight nodes
job: {nodes: 8, steps: 20000, checkpoint_every_steps: 500, spare_nodes: 2}
settings: {max_failures: 30, storage_path: "s3://bucket", run_name: r, health_check_timeout_s: 100,
  collective_timeout_s: 100}
costs: {step_s: 1, save_s: 8, schedule_s: 20, start_s: 10}
market: calm-500h
"""
