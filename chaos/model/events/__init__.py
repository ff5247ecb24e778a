"""The kinds of events, by who records them; `model.event` names them all."""
