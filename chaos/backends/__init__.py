"""Backends, which execute plans. A backend writes journals and changes nothing else of chaos."""
