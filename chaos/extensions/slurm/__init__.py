"""Jobs that Slurm starts: a cluster of its own for each run, on this machine.

The script for `sbatch` is submitted as it is. Its attempts are the starts of the job
(`SLURM_RESTART_COUNT`), its nodes are slurmd daemons, and Slurm decides what is requeued.
"""
