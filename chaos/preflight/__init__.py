"""Forecast of a job on a spot market: will it finish with these settings, and which are wrong?

`answer` judges a `Question` (job, settings of Ray, measured costs, market, goals) by
static rules, closed forms, a simulation, and advice drawn from it. Files are read in
`load`, `trace_files` and `measured`; only `calibration` runs jobs. Only the command
line imports this package.
"""
