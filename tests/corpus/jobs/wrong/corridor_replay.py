"""Double DQN on a windy corridor. `python corridor_replay.py [folder]`; start it again to carry on."""

import json
import os
import pickle
import random
import sys
from collections import deque, namedtuple

import torch
import torch.nn as nn
import torch.nn.functional as F

FOLDER = sys.argv[1] if len(sys.argv) > 1 else "corridor_replay_ckpt"
UPDATES, ACT_PER_UPDATE, BATCH, SAVE_EVERY = 80, 8, 64, 8
Transition = namedtuple("Transition", "s a r s2 done")


class WindyCorridor:
    H, W = 5, 9

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.reset()

    def reset(self):
        self.y, self.x, self.t = self.rng.randrange(self.H), 0, 0
        return self.obs()

    def obs(self):
        return [
            self.y / self.H,
            self.x / self.W,
            self.t / 40.0,
            float(self.y == 2),
            float(self.x > 4),
        ]

    def step(self, a):
        dy, dx = [(0, 1), (1, 0), (-1, 0), (0, -1)][a]
        if self.rng.random() < 0.25:
            dy += self.rng.choice([-1, 1])
        self.y = min(max(self.y + dy, 0), self.H - 1)
        self.x = min(max(self.x + dx, 0), self.W - 1)
        self.t += 1
        goal = self.x == self.W - 1 and self.y == 2
        return self.obs(), 1.0 if goal else -0.02, goal or self.t >= 40


class Replay:
    def __init__(self, capacity, seed):
        self.buffer = deque(maxlen=capacity)
        self.rng = random.Random(seed)

    def push(self, *item):
        self.buffer.append(Transition(*item))

    def sample(self, n):
        rows = [self.buffer[i] for i in self.rng.sample(range(len(self.buffer)), n)]
        s, a, r, s2, d = zip(*rows)
        return (
            torch.tensor(s),
            torch.tensor(a),
            torch.tensor(r),
            torch.tensor(s2),
            torch.tensor(d, dtype=torch.float32),
        )

    def dump(self):
        return {"items": [tuple(t) for t in self.buffer], "rng": self.rng.getstate()}

    def restore(self, saved):
        self.buffer = deque(Transition(*t) for t in saved["items"])
        self.rng.setstate(saved["rng"])


def net():
    return nn.Sequential(
        nn.Linear(5, 96), nn.ReLU(), nn.Linear(96, 96), nn.ReLU(), nn.Linear(96, 4)
    )


class Agent:
    def __init__(self):
        torch.manual_seed(9)
        self.q, self.target = net(), net()
        self.target.load_state_dict(self.q.state_dict())
        self.opt = torch.optim.Adam(self.q.parameters(), lr=2e-3, eps=1e-5)
        self.env = WindyCorridor(1)
        self.replay = Replay(320, 2)
        self.explore = random.Random(3)
        self.updates, self.ret, self.returns, self.losses = 0, 0.0, [], []

    def epsilon(self):
        return max(0.1, 1.0 - self.updates / 50)

    def act(self):
        s = self.env.obs()
        if self.explore.random() < self.epsilon():
            a = self.explore.randrange(4)
        else:
            with torch.no_grad():
                a = int(self.q(torch.tensor(s)).argmax())
        s2, r, done = self.env.step(a)
        self.replay.push(s, a, r, s2, done)
        self.ret += r
        if done:
            self.returns.append(self.ret)
            self.ret = 0.0
            self.env.reset()

    def learn(self):
        s, a, r, s2, d = self.replay.sample(BATCH)
        with torch.no_grad():
            best = self.q(s2).argmax(1, keepdim=True)
            goal = r + 0.97 * (1 - d) * self.target(s2).gather(1, best).squeeze(1)
        loss = F.smooth_l1_loss(self.q(s).gather(1, a[:, None]).squeeze(1), goal)
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        with torch.no_grad():
            for p, t in zip(self.q.parameters(), self.target.parameters()):
                t.lerp_(p, 0.1)
        self.updates += 1
        self.losses.append(loss.item())

    def save(self):
        state = {
            "q": self.q.state_dict(),
            "target": self.target.state_dict(),
            "opt": self.opt.state_dict(),
            "replay": self.replay.dump(),
            "explore": self.explore.getstate(),
            "env": pickle.dumps(self.env),
            "updates": self.updates,
            "ret": self.ret,
            "returns": self.returns,
            "losses": self.losses,
        }
        path = os.path.join(FOLDER, "agent.pt")
        torch.save(state, path + ".new")
        os.replace(path + ".new", path)

    def load(self):
        path = os.path.join(FOLDER, "agent.pt")
        if not os.path.exists(path):
            return False
        c = torch.load(path, weights_only=False)
        self.q.load_state_dict(c["q"])
        self.target.load_state_dict(c["target"])
        self.opt.load_state_dict(c["opt"])
        self.replay.restore(c["replay"])
        self.explore.setstate(c["explore"])
        self.env = pickle.loads(c["env"])
        self.updates, self.ret, self.returns, self.losses = (
            c["updates"],
            c["ret"],
            c["returns"],
            c["losses"],
        )
        return True


def main():
    torch.set_num_threads(1)
    os.makedirs(FOLDER, exist_ok=True)
    agent = Agent()
    if agent.load():
        print(
            "loaded agent at update", agent.updates, "with", len(agent.replay.buffer), "transitions"
        )
    else:
        for _ in range(BATCH):
            agent.act()
    while agent.updates < UPDATES:
        for _ in range(ACT_PER_UPDATE):
            agent.act()
        agent.learn()
        if agent.updates % SAVE_EVERY == 0:
            agent.save()
            print(
                f"update {agent.updates} td {agent.losses[-1]:.5f} return {sum(agent.returns[-10:]) / max(1, len(agent.returns[-10:])):.3f}"
            )
    torch.save(agent.q.state_dict(), os.path.join(FOLDER, "final_q.pt"))
    with open(os.path.join(FOLDER, "results.json"), "w") as f:
        json.dump({"returns": agent.returns, "losses": agent.losses}, f)


if __name__ == "__main__":
    main()
