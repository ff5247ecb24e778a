"""The names of `chaos` are completed, and no other is there."""

import chaos
import chaos.app.audit
from chaos.extension_modules import has_extension


def test_names_are_completed_and_no_other_is_there() -> None:
    assert {*chaos.__all__} <= {*dir(chaos)}
    assert {"audit", "run", "scenario", "plans", "declare", "kill_worker"} <= {*dir(chaos)}
    assert not {"import_module", "declared", "TYPE_CHECKING", "errors"} & {*dir(chaos)}
    extensions = {"guard": "guard", "plans": "lab"}  # which may be missing
    absent = {name for name, extension in extensions.items() if not has_extension(extension)}
    assert all(hasattr(chaos, name) for name in {*dir(chaos)} - absent)
