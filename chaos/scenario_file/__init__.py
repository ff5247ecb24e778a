"""YAML text becomes a `Scenario`, or errors that name the file, the line and what to write.

`load` is the way in. Text is read as plain values with their lines (`source`),
checked against the records (`wording` turns pydantic's errors into ours), and
then for sense between its parts (`sense`). `schema` serves editors.
"""
