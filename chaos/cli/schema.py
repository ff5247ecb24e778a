"""`chaos schema`: the JSON Schema of scenario files."""

import json

from chaos.cli.streams import write_document
from chaos.scenario_file.messages import build_json_schema


def schema() -> None:
    """Print the JSON Schema of scenario files, for editors.

    Example: chaos schema > scenarios/chaos.schema.json
    """
    write_document(json.dumps(build_json_schema(), indent=2) + "\n")
