"""DQN on a noisy corridor: walk right for +1, falling off the left end costs 1."""

import argparse
import copy
import os

import numpy as np
import torch
from torch import nn


class Corridor:
    def __init__(self, length=8):
        self.length, self.pos = length, length // 2

    def obs(self):
        v = np.zeros(self.length + 1, dtype=np.float32)
        v[self.pos] = 1.0
        return v

    def step(self, action, rng):
        if rng.random() < 0.15:
            action = 1 - action
        self.pos += 1 if action == 1 else -1
        if self.pos <= 0 or self.pos >= self.length:
            reward = 1.0 if self.pos > 0 else -1.0
            self.pos = self.length // 2
            return reward, True
        return -0.01, False


class Agent:
    sync_every = 11

    def __init__(self, out, seed):
        torch.manual_seed(seed)
        self.file = os.path.join(out, "agent.pt")
        self.env = Corridor()
        self.rng = np.random.default_rng(seed)
        self.q = nn.Sequential(nn.Linear(9, 24), nn.ReLU(), nn.Linear(24, 2))
        self.opt = torch.optim.Adam(self.q.parameters(), lr=1e-2)
        self.memory, self.eps, self.grad_steps, self.epoch = [], 1.0, 0, 0
        if os.path.exists(self.file):
            self.load()
        self.target = copy.deepcopy(self.q)

    def act(self, obs):
        if self.rng.random() < self.eps:
            return int(self.rng.integers(2))
        with torch.no_grad():
            return int(self.q(torch.from_numpy(obs)).argmax())

    def collect(self, n):
        for _ in range(n):
            o = self.env.obs()
            a = self.act(o)
            r, done = self.env.step(a, self.rng)
            self.memory.append((o, a, r, self.env.obs(), done))
        self.memory = self.memory[-200:]

    def learn(self, batch=32):
        pick = [self.memory[i] for i in self.rng.integers(len(self.memory), size=batch)]
        o, a, r, o2, d = (torch.from_numpy(np.array(c)) for c in zip(*pick))
        with torch.no_grad():
            y = r.float() + 0.95 * self.target(o2).max(1).values * (~d).float()
        loss = nn.functional.smooth_l1_loss(self.q(o).gather(1, a[:, None]).squeeze(1), y)
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        self.grad_steps += 1
        if self.grad_steps % self.sync_every == 0:
            self.target.load_state_dict(self.q.state_dict())
        self.eps = max(0.1, self.eps * 0.97)
        return loss.item()

    def save(self):
        torch.save(
            {
                "q": self.q.state_dict(),
                "opt": self.opt.state_dict(),
                "memory": self.memory,
                "eps": self.eps,
                "grad_steps": self.grad_steps,
                "epoch": self.epoch,
                "pos": self.env.pos,
                "rng": self.rng.bit_generator.state,
            },
            self.file + "~",
        )
        os.replace(self.file + "~", self.file)

    def load(self):
        s = torch.load(self.file, weights_only=False)
        self.q.load_state_dict(s["q"])
        self.opt.load_state_dict(s["opt"])
        self.memory, self.eps, self.grad_steps = s["memory"], s["eps"], s["grad_steps"]
        self.epoch, self.env.pos = s["epoch"], s["pos"]
        self.rng.bit_generator.state = s["rng"]


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", default="./out")
    parser.add_argument("--seed", type=int, default=1)
    opts = parser.parse_args()
    torch.set_num_threads(1)
    os.makedirs(opts.out, exist_ok=True)
    agent = Agent(opts.out, opts.seed)
    while agent.epoch < 6:
        td = []
        for _ in range(8):
            agent.collect(8)
            td.append(agent.learn())
        print(f"epoch {agent.epoch}: td loss {np.mean(td):.10f} eps {agent.eps:.4f}", flush=True)
        agent.epoch += 1
        agent.save()
