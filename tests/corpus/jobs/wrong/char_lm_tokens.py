"""A character language model on a small corpus, trained for a number of tokens."""

import argparse
import math
import os
import tempfile

import ray.train
import torch
import torch.nn as nn
import torch.nn.functional as F
from ray.train import Checkpoint, FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer

VERSE = (
    "the owl and the pussycat went to sea in a beautiful pea green boat, "
    "they took some honey, and plenty of money wrapped up in a five pound note. "
    "the owl looked up to the stars above, and sang to a small guitar. "
)
CHARS = sorted(set(VERSE))
STOI = {c: i for i, c in enumerate(CHARS)}


class CausalSelfAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.proj = nn.Linear(dim, dim, bias=False)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.proj(y.transpose(1, 2).reshape(b, t, d))


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attn = CausalSelfAttention(dim, heads)
        self.mlp = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))

    def forward(self, x):
        x = x + self.attn(self.ln1(x))
        return x + self.mlp(self.ln2(x))


class CharLM(nn.Module):
    def __init__(self, vocab, block_size, dim=24, heads=3, layers=2):
        super().__init__()
        self.tok = nn.Embedding(vocab, dim)
        self.pos = nn.Embedding(block_size, dim)
        self.blocks = nn.ModuleList(Block(dim, heads) for _ in range(layers))
        self.ln = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, vocab, bias=False)
        self.head.weight = self.tok.weight
        nn.init.normal_(self.tok.weight, std=0.02)

    def forward(self, idx):
        x = self.tok(idx) + self.pos(torch.arange(idx.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.ln(x))


class TextReader:
    """Reads the text from left to right, again from the left when it is through."""

    def __init__(self, text, batch_size, block_size):
        self.data = torch.tensor([STOI[c] for c in text])
        self.batch_size, self.block_size = batch_size, block_size
        self.at = 0

    def next_batch(self):
        rows = []
        for _ in range(self.batch_size):
            if self.at + self.block_size + 1 > len(self.data):
                self.at = self.at % 7 + 1
            rows.append(self.data[self.at : self.at + self.block_size + 1])
            self.at += self.block_size
        chunk = torch.stack(rows)
        return chunk[:, :-1], chunk[:, 1:]


def lr_at(step, peak, warmup, total):
    if step < warmup:
        return peak * (step + 1) / warmup
    return peak * 0.5 * (1 + math.cos(math.pi * min(1.0, (step - warmup) / (total - warmup))))


def train_loop(config):
    torch.manual_seed(1337)
    block_size, batch_size = config["block_size"], config["batch_size"]
    reader = TextReader(VERSE, batch_size, block_size)
    model = CharLM(len(CHARS), block_size)
    optimizer = torch.optim.AdamW(model.parameters(), lr=config["lr"], betas=(0.9, 0.95))
    tokens_seen = 0
    total_steps = config["tokens"] // (batch_size * block_size)

    checkpoint = ray.train.get_checkpoint()
    if checkpoint is not None:
        with checkpoint.as_directory() as d:
            state = torch.load(os.path.join(d, "lm.pt"))
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        tokens_seen = state["tokens_seen"]
        print(f"continuing after {tokens_seen} tokens")

    step, running = 0, []
    while tokens_seen < config["tokens"]:
        for group in optimizer.param_groups:
            group["lr"] = lr_at(step, config["lr"], config["warmup"], total_steps)
        x, y = reader.next_batch()
        logits = model(x)
        loss = F.cross_entropy(logits.flatten(0, 1), y.flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        step += 1
        tokens_seen += x.numel()
        running.append(loss.item())

        if tokens_seen % config["save_every_tokens"] == 0 or tokens_seen >= config["tokens"]:
            with tempfile.TemporaryDirectory() as d:
                torch.save(
                    {
                        "model": model.state_dict(),
                        "optimizer": optimizer.state_dict(),
                        "tokens_seen": tokens_seen,
                    },
                    os.path.join(d, "lm.pt"),
                )
                ray.train.report(
                    {"tokens": tokens_seen, "loss": sum(running) / len(running)},
                    checkpoint=Checkpoint.from_directory(d),
                )
            running = []


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--tokens", type=int, default=5120)
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--block-size", type=int, default=32)
    parser.add_argument("--lr", type=float, default=3e-3)
    args = parser.parse_args()
    trainer = TorchTrainer(
        train_loop,
        train_loop_config={
            **vars(args),
            "warmup": 8,
            "save_every_tokens": 8 * args.batch_size * args.block_size,
        },
        scaling_config=ScalingConfig(num_workers=1),
        run_config=RunConfig(name="char-lm", failure_config=FailureConfig(max_failures=5)),
    )
    print(trainer.fit().metrics)
