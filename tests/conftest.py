"""Hypothesis without deadlines: these machines are noisy, and a slow example is no defect."""

from hypothesis import settings

settings.register_profile("chaos", deadline=None)
settings.load_profile("chaos")
