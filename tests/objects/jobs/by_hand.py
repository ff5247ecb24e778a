"""One start of a job with a real death, or a lost answer, at its n-th request: the truth, by hand.

    python by_hand.py {kill|lose|hide} NUMBER SCRIPT

`kill`: SIGKILL before the n-th request that changes the store is sent. `lose`: the n-th is sent, and
its answer never comes. `hide`: no listing has the newest object. 0: nothing is done. Of several
ranks, rank 0 counts alone.
"""

import os
import runpy
import signal
import sys

import botocore.client
import botocore.endpoint
from botocore.exceptions import ConnectionClosedError

KIND, NUMBER, SCRIPT = sys.argv[1], int(sys.argv[2]), sys.argv[3]
CHANGES = ("PUT", "POST", "DELETE")
count = 0


def before(request):
    """Count a request; die before the due one."""
    global count
    if request.method in CHANGES and "select&select-type" not in request.url:
        count += 1
        if KIND == "kill" and count == NUMBER:
            os.kill(os.getpid(), signal.SIGKILL)


def after(request):
    if KIND == "lose" and count == NUMBER and request.method in CHANGES:
        raise ConnectionClosedError(endpoint_url=request.url)


def newest_left_out(answer):
    found = answer.get("Contents", [])
    if KIND == "hide" and found:
        newest = max(found, key=lambda one: one["LastModified"])
        last = sorted(
            (one for one in found if not one["Key"].endswith("/newest")),
            key=lambda one: (one["LastModified"], one["Key"]),
        )
        found.remove(last[-1] if last else newest)
        answer["KeyCount"] = len(found)
    return answer


send = botocore.endpoint.Endpoint._send
call = botocore.client.BaseClient._make_api_call


def sent(endpoint, request):
    before(request)
    answer = send(endpoint, request)
    after(request)
    return answer


def called(client, operation, params):
    answer = call(client, operation, params)
    return newest_left_out(answer) if operation.startswith("ListObjects") else answer


if os.environ.get("RANK", "0") == "0" and NUMBER:
    botocore.endpoint.Endpoint._send = sent
    botocore.client.BaseClient._make_api_call = called
    try:
        import aiobotocore.endpoint
    except ImportError:
        pass
    else:
        send_in_a_loop = aiobotocore.endpoint.AioEndpoint._send

        async def sent_in_a_loop(endpoint, request):
            before(request)
            answer = await send_in_a_loop(endpoint, request)
            after(request)
            return answer

        aiobotocore.endpoint.AioEndpoint._send = sent_in_a_loop

sys.argv = [SCRIPT]
runpy.run_path(SCRIPT, run_name="__main__")
