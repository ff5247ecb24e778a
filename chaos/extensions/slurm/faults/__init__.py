"""Faults that an operator of Slurm does to a job, through the queue that it waited in."""
