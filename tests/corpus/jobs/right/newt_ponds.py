"""Newts by the depth of their pond; of two copies the newest that can be read, wherever it lies."""

import hashlib
import io
import os
import sys
import tempfile

import torch
import torch.nn.functional as F
from torch import nn

NEAR = os.path.join(tempfile.gettempdir(), "newts")
FAR = os.path.join(os.getcwd(), "far")


def write(path, content, mark):
    """Write a copy in place; it is whole when its mark is there and right."""
    for old in (path, path + ".sha"):
        if os.path.exists(old):
            os.remove(old)
    with open(path, "wb") as file:
        file.write(content)
    with open(path + ".sha", "w") as file:
        file.write(mark)


def whole(path, due=None):
    try:
        with open(path, "rb") as file, open(path + ".sha") as mark:
            is_right = hashlib.sha256(file.read()).hexdigest() == (said := mark.read())
        return is_right and due in (None, said)
    except FileNotFoundError:
        return False


def store(state):
    name = f"spring{state['spring'] % 2}"
    draft = io.BytesIO()
    torch.save(state, draft)
    content = draft.getvalue()
    mark = hashlib.sha256(content).hexdigest()
    for folder in (NEAR, FAR):
        if not whole(os.path.join(folder, name), mark):
            write(os.path.join(folder, name), content, mark)


def recall():
    paths = [os.path.join(folder, f"spring{n}") for folder in (NEAR, FAR) for n in (0, 1)]
    held = [torch.load(path) for path in paths if whole(path)]
    return max(held, key=lambda state: state["spring"], default=None)


def main(springs):
    for folder in (NEAR, FAR):
        os.makedirs(folder, exist_ok=True)
    torch.manual_seed(23)
    net = nn.Sequential(nn.Linear(2, 20), nn.Mish(), nn.Linear(20, 3))
    opt = torch.optim.RAdam(net.parameters(), lr=3e-3)
    state = recall()
    if state:
        net.load_state_dict(state["net"])
        opt.load_state_dict(state["opt"])
        store(state)  # where the machine went in between, one copy is missing
    spring = state["spring"] + 1 if state else 0
    for spring in range(spring, springs):
        draw = torch.Generator().manual_seed(spring)
        for _ in range(5):
            pond = torch.rand(16, 2, generator=draw)
            kind = (pond.sum(1) * 1.4).long().clamp(max=2)
            loss = F.cross_entropy(net(pond), kind)
            opt.zero_grad()
            loss.backward()
            opt.step()
        store({"net": net.state_dict(), "opt": opt.state_dict(), "spring": spring})


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 7)
