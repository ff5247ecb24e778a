"""YAML text, or what Python wrote, becomes a `Scenario`, or errors with the line and a hint.

`load` is the way in: text as plain values with their lines (`yaml_lines`), checked against the
records (`messages` turns pydantic's errors into ours), then for sense (`validate`). `from_python`
has the functions of decorated tests, `faults` names them. Nothing here needs pytest, Ray or torch.
"""
