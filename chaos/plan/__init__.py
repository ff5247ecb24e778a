"""Scenario and seed → plan, and which ops of a plan are due. Pure: no file, no clock.

`run` and the backends ask; nothing here knows how a fault is carried out.
"""
