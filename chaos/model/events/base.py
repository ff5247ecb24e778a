"""What all events share."""

import msgspec


class Event(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag=True):
    """The base of all events; a class's name is its tag in the journal."""
