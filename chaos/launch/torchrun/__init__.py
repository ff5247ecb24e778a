"""Jobs that know nothing of Ray: torchrun itself starts their script, on this machine.

    harness ── python -m …torchrun.agent ── torch.distributed.run, as it is installed
      gates       │ its agent is observed: rounds, failures, restarts left
                  ├── worker.py train.py …   rank 0: a probe, then the script as `__main__`
                  └── worker.py train.py …   rank 1

A round of torchrun's workers is an attempt. There is no report and no commit: what a restart can
resume from are files that the job has saved itself. No module in here imports Ray.
"""
