"""Functions that say where an attempt resumed, what it could resume from, and what came back.

Checks and the guard of real trainings ask the same questions here. `attempt`, `resume_place` and
`relocation` place an attempt; `files` and the modules about saves know what it could have read;
`state_snapshots` and `state_at_resume` compare what it trains with. This package imports
`chaos.model` alone.
"""
