"""Will this job, with these settings, finish on that spot market?

Pure code over a `Question` (job, Ray's settings, measured costs, market, goal):
static rules, closed forms, a simulation, and advice drawn from it. Files are
read in `load`, `traces` and `calibrate`; nothing here knows a backend.
"""
