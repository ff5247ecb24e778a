"""Training functions with a planted bug each, and right ones that look suspicious.

Ordinary train loops for Ray Train, as people write them; `catalogue` says what
is wrong with each. `chaos selftest` strikes them to try chaos's own judgement.
"""
