"""Sequence tagger with Lookahead(AdamW), hook based trainer and a background checkpoint writer."""

import argparse
import copy
import hashlib
import json
import os
import queue
import threading
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from safetensors.torch import load_file, save_file

HOOKS = {}


def register_hook(name):
    def deco(cls):
        HOOKS[name] = cls
        return cls

    return deco


@dataclass
class Config:
    epochs: int = 5
    batch_size: int = 32
    n: int = 480
    seq: int = 12
    vocab: int = 24
    lr: float = 4e-3
    la_k: int = 5
    la_alpha: float = 0.5
    save_every: int = 7
    keep: int = 2
    seed: int = 11
    root: str = "out"


class Lookahead(torch.optim.Optimizer):
    def __init__(self, base, k=5, alpha=0.5):
        self.base, self.k, self.alpha = base, k, alpha
        self.count = 0
        self.slow = [[p.detach().clone() for p in g["params"]] for g in base.param_groups]
        self.defaults = base.defaults
        self.param_groups = base.param_groups
        self.state = base.state

    def zero_grad(self, set_to_none=True):
        self.base.zero_grad(set_to_none)

    @torch.no_grad()
    def step(self, closure=None):
        self.base.step()
        self.count += 1
        if self.count % self.k == 0:
            for g, slow in zip(self.base.param_groups, self.slow):
                for p, s in zip(g["params"], slow):
                    s.lerp_(p, self.alpha)
                    p.copy_(s)

    def state_dict(self):
        return {"base": self.base.state_dict(), "count": self.count, "slow": self.slow}

    def load_state_dict(self, sd):
        self.base.load_state_dict(sd["base"])
        self.param_groups, self.state = self.base.param_groups, self.base.state
        self.count = sd["count"]
        self.slow = [[t.clone() for t in g] for g in sd["slow"]]


class PermutationSampler:
    """Infinite-epoch sampler which remembers the generator as it was before the current permutation."""

    def __init__(self, n, batch_size, seed):
        self.n, self.bs = n, batch_size
        self.gen = torch.Generator().manual_seed(seed)
        self.before = self.gen.get_state()
        self.cursor = 0

    def __len__(self):
        return self.n // self.bs

    def __iter__(self):
        self.before = self.gen.get_state()
        perm = torch.randperm(self.n, generator=self.gen)
        while self.cursor < len(self):
            b = perm[self.cursor * self.bs : (self.cursor + 1) * self.bs]
            self.cursor += 1
            yield b
        self.cursor = 0

    def state_dict(self):
        if self.cursor == len(self):
            return {"gen": self.gen.get_state(), "cursor": 0, "finished": True}
        return {"gen": self.before.clone(), "cursor": self.cursor, "finished": False}

    def load_state_dict(self, sd):
        self.gen.set_state(sd["gen"])
        self.cursor = sd["cursor"]


class Tagger(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.emb = nn.Embedding(c.vocab, 24)
        self.mix = nn.ModuleList([nn.Linear(72, 48), nn.Linear(48, 64)])
        self.drop = nn.Dropout(0.15)
        self.head = nn.Linear(64, 4)

    def forward(self, x):
        h = self.emb(x)
        h = torch.cat([torch.roll(h, 1, 1), h, torch.roll(h, -1, 1)], 2)
        for layer in self.mix:
            h = F.gelu(layer(h))
        return self.head(self.drop(h))


def make_data(c):
    rng = np.random.default_rng(c.seed)
    x = rng.integers(0, c.vocab, (c.n, c.seq))
    y = (x + np.roll(x, 1, 1) + np.roll(x, -1, 1)) % 4
    return torch.from_numpy(x), torch.from_numpy(y)


class BackgroundWriter:
    def __init__(self, root, keep):
        self.root, self.keep = Path(root), keep
        self.root.mkdir(parents=True, exist_ok=True)
        self.q = queue.Queue(maxsize=2)
        self.err = None
        self.t = threading.Thread(target=self._loop, daemon=True)
        self.t.start()

    def submit(self, step, weights, state, info):
        if self.err:
            raise self.err
        self.q.put((step, weights, state, info))

    def _loop(self):
        while True:
            item = self.q.get()
            try:
                if item is None:
                    return
                self._write(*item)
            except Exception as e:
                self.err = e
            finally:
                self.q.task_done()

    def _write(self, step, weights, state, info):
        wname, sname = f"w-{step:05d}.safetensors", f"s-{step:05d}.pt"
        save_file(weights, self.root / "tmp.safetensors")
        os.replace(self.root / "tmp.safetensors", self.root / wname)
        torch.save(state, self.root / "tmp.pt")
        os.replace(self.root / "tmp.pt", self.root / sname)
        manifest = dict(info, step=step, weights=wname, state=sname)
        tmp = self.root / "tmp.json"
        tmp.write_text(json.dumps(manifest, indent=1))
        os.replace(tmp, self.root / "manifest.json")
        stale = (
            sorted(self.root.glob("w-*.safetensors"))[: -self.keep]
            + sorted(self.root.glob("s-*.pt"))[: -self.keep]
        )
        for f in stale:
            f.unlink()

    def close(self):
        self.q.put(None)
        self.t.join()
        if self.err:
            raise self.err


@register_hook("checkpoint")
class CheckpointHook:
    def __init__(self, tr):
        self.w = BackgroundWriter(tr.cfg.root, tr.cfg.keep)

    def after_step(self, tr):
        if tr.step % tr.cfg.save_every == 0 or tr.step == tr.total:
            weights = {k: v.detach().clone() for k, v in tr.model.state_dict().items()}
            state = copy.deepcopy(
                {
                    "opt": tr.opt.state_dict(),
                    "sched": tr.sched.state_dict(),
                    "sampler": tr.sampler.state_dict(),
                    "rng": torch.get_rng_state(),
                }
            )
            self.w.submit(
                tr.step, weights, state, {"epoch_sum": tr.epoch_sum, "history": list(tr.history)}
            )

    def after_run(self, tr):
        self.w.close()


@register_hook("console")
class ConsoleHook:
    def __init__(self, tr):
        pass

    def after_step(self, tr):
        print(f"step {tr.step} loss {tr.loss:.6f} ids {tr.ids}", flush=True)

    def after_run(self, tr):
        h = hashlib.sha1(
            b"".join(v.numpy().tobytes() for v in tr.model.state_dict().values())
        ).hexdigest()[:12]
        print("history " + " ".join(f"{v:.6f}" for v in tr.history), flush=True)
        print(f"final {h}", flush=True)


class Trainer:
    def __init__(self, cfg):
        self.cfg = cfg
        torch.manual_seed(cfg.seed)
        self.x, self.y = make_data(cfg)
        self.model = Tagger(cfg)
        self.opt = Lookahead(
            torch.optim.AdamW(self.model.parameters(), lr=cfg.lr), cfg.la_k, cfg.la_alpha
        )
        self.sampler = PermutationSampler(cfg.n, cfg.batch_size, cfg.seed)
        self.per_epoch = len(self.sampler)
        self.total = cfg.epochs * self.per_epoch
        self.sched = torch.optim.lr_scheduler.OneCycleLR(
            self.opt.base, cfg.lr, total_steps=self.total + 1
        )
        self.step, self.epoch_sum, self.history = 0, 0.0, []
        self.loss, self.ids = 0.0, 0
        self.restore()
        self.hooks = [HOOKS[n](self) for n in ("console", "checkpoint")]

    def restore(self):
        m = Path(self.cfg.root) / "manifest.json"
        if not m.exists():
            return
        info = json.loads(m.read_text())
        self.model.load_state_dict(load_file(Path(self.cfg.root) / info["weights"]))
        st = torch.load(Path(self.cfg.root) / info["state"], weights_only=False)
        self.opt.load_state_dict(st["opt"])
        self.sched.load_state_dict(st["sched"])
        self.sampler.load_state_dict(st["sampler"])
        torch.set_rng_state(st["rng"])
        self.step, self.epoch_sum, self.history = info["step"], info["epoch_sum"], info["history"]
        print(f"# continuing from step {self.step}", flush=True)

    def call(self, what):
        for h in self.hooks:
            getattr(h, what, lambda t: None)(self)

    def run(self):
        while self.step < self.total:
            for idx in self.sampler:
                self.train_step(idx)
                if self.step % self.per_epoch == 0:
                    self.history.append(self.epoch_sum / self.per_epoch)
                    self.epoch_sum = 0.0
                self.call("after_step")
        self.call("after_run")

    def train_step(self, idx):
        self.model.train()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            out = self.model(self.x[idx])
        loss = F.cross_entropy(out.float().flatten(0, 1), self.y[idx].flatten())
        self.opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.opt.step()
        self.sched.step()
        self.step += 1
        self.loss, self.ids = loss.item(), int(idx.sum())
        self.epoch_sum += self.loss


def main():
    p = argparse.ArgumentParser()
    for k, v in asdict(Config()).items():
        p.add_argument("--" + k.replace("_", "-"), dest=k, type=type(v), default=v)
    cfg = Config(**vars(p.parse_args()))
    torch.set_num_threads(1)
    Trainer(cfg).run()


if __name__ == "__main__":
    main()
