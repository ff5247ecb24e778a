"""Marks of tests that need an extension of chaos, which a wheel may be without."""

import pytest

from chaos.extension_modules import has_extension


def needs_extension(name: str) -> pytest.MarkDecorator:
    """Return the mark that skips a test where an extension is not installed."""
    return pytest.mark.skipif(not has_extension(name), reason=f"the extension {name} is missing")
