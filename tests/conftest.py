"""Hypothesis without deadlines: these machines are noisy, and a slow example is no defect."""

from hypothesis import settings

collect_ignore_glob = [
    "*.chaos.yaml"
]  # tests use these files themselves; pytest is not to run them

settings.register_profile("chaos", deadline=None)
settings.load_profile("chaos")
