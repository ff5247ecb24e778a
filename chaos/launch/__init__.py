"""The launchers, which execute plans. A launcher writes journals, and changes nothing else."""
