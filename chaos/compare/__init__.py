"""Two runs or suites side by side: what changed, and whether noise can explain it.

Pure functions of summaries; `chaos.cli.compare` reads them and `chaos.report` knows nothing of it.
"""
