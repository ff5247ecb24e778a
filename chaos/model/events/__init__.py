"""The kinds of events, by the process that records them; `model.event` joins them all."""
