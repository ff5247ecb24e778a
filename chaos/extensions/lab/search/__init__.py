"""Search: plans of several faults, drawn at random, and the smallest that fail.

Needs Hypothesis (the extra `search`). It is beside the core: only the command line and
`chaos.plans` import it.
"""

FAULTS_MAX = 6
