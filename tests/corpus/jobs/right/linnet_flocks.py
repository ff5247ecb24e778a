"""The size of linnet flocks over a winter; a thread puts each save into the mounted bucket."""

import os
import pickle
import re
import shutil
import tempfile
import threading
import time

import torch

NEAR = os.path.join(tempfile.gettempdir(), "linnets")
BUCKET = "bucket"
WEEKS = 8


def week_of(name):
    found = re.fullmatch(r"flock-(\d+)\.bin", name)
    return int(found[1]) if found else -1


def newest():
    """Return the newest save that can be read: a process that dies as it writes to the mount closes half an object."""
    found = [
        (week_of(name), at == NEAR, f"{at}/{name}")
        for at in (NEAR, BUCKET)
        for name in os.listdir(at)
    ]
    for week, _, path in sorted((one for one in found if one[0] >= 0), reverse=True):
        try:
            return week, path, torch.load(path)
        except (EOFError, RuntimeError, pickle.UnpicklingError):
            print("cannot read", path)
    return -1, None, None


class Uploader(threading.Thread):
    """Puts what it is given; an object is there once its file is closed, and not before."""

    def __init__(self):
        super().__init__(daemon=True)
        self.due, self.is_over, self.turn = [], False, threading.Condition()

    def give(self, path):
        with self.turn:
            self.due.append(path)
            self.turn.notify()

    def run(self):
        while True:
            with self.turn:
                self.turn.wait_for(lambda: self.due or self.is_over)
                if not self.due:
                    return
                path = self.due[0]
            with (
                open(path, "rb") as file,
                open(f"{BUCKET}/{os.path.basename(path)}", "wb") as there,
            ):
                while block := file.read(512):
                    there.write(block)
                    there.flush()
                    time.sleep(0.005)
            with self.turn:
                self.due.pop(0)
            for name in os.listdir(BUCKET):
                if 0 <= week_of(name) < week_of(os.path.basename(path)) - 1:
                    os.remove(os.path.join(BUCKET, name))

    def finish(self):
        with self.turn:
            self.is_over = True
            self.turn.notify()
        self.join()


def main():
    os.makedirs(NEAR, exist_ok=True)
    os.makedirs(BUCKET, exist_ok=True)
    torch.manual_seed(12)
    flock = torch.nn.Sequential(torch.nn.Linear(5, 14), torch.nn.SELU(), torch.nn.Linear(14, 1))
    rule = torch.optim.NAdam(flock.parameters(), lr=3e-3)
    uploader = Uploader()
    uploader.start()
    week, path, kept = newest()
    if kept:
        flock.load_state_dict(kept["flock"])
        rule.load_state_dict(kept["rule"])
        if path.startswith(NEAR):
            uploader.give(path)
    for week in range(week + 1, WEEKS):
        field = torch.rand(60, 5, generator=torch.Generator().manual_seed(week))
        for seen in field.split(10):
            rule.zero_grad()
            (flock(seen).squeeze(1) - seen.prod(1)).abs().mean().backward()
            rule.step()
            time.sleep(0.01)
        path = f"{NEAR}/flock-{week}.bin"
        part = f"{NEAR}/part"
        torch.save({"flock": flock.state_dict(), "rule": rule.state_dict()}, part)
        os.replace(part, path)
        uploader.give(path)
    uploader.finish()
    shutil.rmtree(NEAR)


if __name__ == "__main__":
    main()
