"""The forecast of a job on a spot market: whether it finishes, and its wrong settings.

`answer` judges a `Question` (job, settings of Ray, measured costs, market, goals) by
static rules, closed forms, a simulation, and advice drawn from it. Files are read in
`load`, `trace_files` and `observed_costs`; only `calibration` runs jobs. Only the command
line imports this package.
"""
