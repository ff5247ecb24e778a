"""Stand-in for the network: tables that scripts read from an address are made here.

Python imports a module of this name as it starts, if the folder is on its path.
"""

import io
import math
import urllib.request
from datetime import UTC, datetime, timedelta
from email.message import Message
from urllib.response import addinfourl

ROWS_OF_TAXIS = 2400
FIRST, HALF_HOUR = datetime(2014, 7, 1, tzinfo=UTC), timedelta(minutes=30)


def taxis() -> str:
    """Return passengers by the half hour: days and weeks can be seen in them."""
    lines = ["timestamp,value"]
    for row in range(ROWS_OF_TAXIS):
        when = FIRST + row * HALF_HOUR
        tide = math.sin((when.hour + when.minute / 60) / 24 * 2 * math.pi)
        passengers = 15000 + 9000 * tide + 2000 * (when.weekday() < 5)
        lines.append(f"{when:%Y-%m-%d %H:%M:%S},{passengers:.0f}")
    return "\n".join(lines)


TABLES = {"nyc_taxi.csv": taxis}


class Tables(urllib.request.BaseHandler):
    """Answers for addresses that end in the name of a table; others go to the network."""

    handler_order = 100

    def https_open(self, request: urllib.request.Request) -> addinfourl | None:
        made = TABLES.get(request.full_url.rsplit("/", 1)[-1])
        if made is None:
            return None
        answer = addinfourl(io.BytesIO(made().encode()), Message(), request.full_url, 200)
        vars(answer)["msg"] = "OK"  # as an answer from the network has
        return answer

    http_open = https_open


urllib.request.install_opener(urllib.request.build_opener(Tables()))
