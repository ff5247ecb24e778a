"""Two runs or suites side by side: the changes, and whether noise can explain them.

Pure functions of summaries; `chaos.cli.compare` reads the files. `chaos.report` does not use it.
"""
