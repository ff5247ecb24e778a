"""Scenario and seed → plan, and which ops of a plan are due. Pure: no file, no clock.

`run` and the backends use it; the execution of a fault is not known here.
"""
