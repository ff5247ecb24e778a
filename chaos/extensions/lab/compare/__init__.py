"""Two runs or suites side by side: the changes, and whether noise can explain them.

Pure functions of summaries; `command` reads the files.
"""
