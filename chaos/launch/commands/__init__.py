"""The shared part of launchers that are a command: torchrun, and the script's own.

A run's processes are forked from a root that has imported torch, or started anew, and the ranks
of an attempt report to the harness by themselves, or by their agents.
"""
