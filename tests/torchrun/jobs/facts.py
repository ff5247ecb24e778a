"""Print what a script may see of its process, one fact per line; train nothing.

torchrun --nproc-per-node 2 facts.py a --b=1 ""
"""

import atexit
import json
import multiprocessing
import os
import random
import re
import signal
import sys
import tempfile
import threading

import numpy as np
import torch
from torch.utils.data import DataLoader, TensorDataset


def tell(name, value):
    # Short lines in one write each: both ranks write to one log.
    os.write(1, f"FACT {os.environ['RANK']} {name} {json.dumps(value)}\n".encode())


def from_a_child(queue):
    queue.put((__name__, sys.argv[1:], os.getcwd()))


def open_files():
    found = [os.path.realpath(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd")]
    return sorted(re.sub(r"[0-9]+", "N", os.path.basename(path)) for path in found)


def main():
    own = {"PWD", "OLDPWD", "_", "TMPDIR", "CHAOS_RUN_DIRECTORY", "CHAOS_RUN_TOKEN"}
    own |= {"CHAOS_CONTROLLER", "MASTER_PORT", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_ERROR_FILE"}
    tell("env", {name: os.environ[name] for name in sorted(os.environ) if name not in own})
    tell("args", [os.path.basename(sys.argv[0]), *sys.argv[1:]])
    tell("path", [sys.path[0] == os.path.dirname(os.path.abspath(__file__)), sys.path[1:]])
    tell("main", [__name__, __spec__ is None, sys.modules["__main__"].main is main])
    tell("cwd", os.getcwd())
    tell("session", [os.getsid(0) == os.getpid(), os.getpgid(0) == os.getpid()])
    tell("threads", [torch.get_num_threads(), torch.get_num_interop_threads()])
    tell("python threads", [t.name for t in threading.enumerate() if t.name == "MainThread"])
    tell("flags", [str(sys.flags), hash("chaos"), sys.stdout.write_through, sys.stdin.isatty()])
    tell("signals", {str(s): str(signal.getsignal(s)) for s in signal.valid_signals()})
    tell("open", open_files())
    tell("errors", [sys.stdout.errors, sys.stdout.encoding, sys.excepthook is sys.__excepthook__])
    tell(
        "process", [multiprocessing.parent_process() is None, os.path.isdir(tempfile.gettempdir())]
    )
    drawn = [random.random(), float(np.random.rand()), float(torch.rand(1))]
    tell("RANDOM", [*drawn, torch.initial_seed(), os.urandom(4).hex()])
    for method in ("fork", "spawn", "forkserver"):
        context = multiprocessing.get_context(method)
        queue = context.Queue()
        child = context.Process(target=from_a_child, args=(queue,))
        child.start()
        tell(method, queue.get())
        child.join()
        tell(f"{method} ended", child.exitcode)
    data = TensorDataset(torch.arange(8))
    for method in ("fork", "spawn"):
        loader = DataLoader(data, batch_size=4, num_workers=2, multiprocessing_context=method)
        tell(f"loader {method}", [batch[0].tolist() for batch in loader])
    big = torch.ones(400, 400)
    tell("product", float((big @ big).sum()))
    atexit.register(tell, "atexit", True)
    sys.exit(int(sys.argv[1]) if sys.argv[1].isdigit() else 0)


if __name__ == "__main__":
    main()
