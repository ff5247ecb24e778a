"""From YAML text, or keywords of Python, to a `Scenario`, or errors with line and hint.

`load` is the entry: text as plain values with their lines (`yaml_lines`), checked against the
records (`messages` turns pydantic's errors into ours), then for sense (`validate`). `from_python`
has the functions of decorated tests, `faults` names them. Nothing here needs pytest, Ray or torch.
"""
