"""Dunlins and the tide, on two processes; rank 0 puts what names the newest weights, and the weights."""

import io
import json

import boto3
import torch
import torch.distributed as dist
from botocore.exceptions import ClientError
from torch.nn.parallel import DistributedDataParallel

BUCKET, ROOT = "coast", "dunlins/run-1"
TIDES = 6


def fetch(store, key):
    return store.get_object(Bucket=BUCKET, Key=f"{ROOT}/{key}")["Body"].read()


def start(store, flock, rule):
    try:
        newest = json.loads(fetch(store, "newest.json"))
    except ClientError as error:
        if error.response["Error"]["Code"] != "NoSuchKey":
            raise
        return 0
    kept = torch.load(io.BytesIO(fetch(store, newest["weights"])))
    flock.load_state_dict(kept["flock"])
    rule.load_state_dict(kept["rule"])
    return newest["tide"] + 1


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    store = boto3.client("s3")
    torch.manual_seed(31)
    flock = DistributedDataParallel(
        torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.GELU(), torch.nn.Linear(8, 1))
    )
    rule = torch.optim.AdamW(flock.parameters(), lr=6e-3)
    first = start(store, flock, rule)
    print("start", first)
    for tide in range(first, TIDES):
        seen = torch.randn(24, 3, generator=torch.Generator().manual_seed(10 * tide + rank))
        for some in seen.split(6):
            rule.zero_grad()
            (flock(some).squeeze(1) - some.norm(dim=1)).pow(2).mean().backward()
            rule.step()
        if rank == 0:
            weights = f"tide-{tide}.pt"
            store.put_object(
                Bucket=BUCKET,
                Key=f"{ROOT}/newest.json",
                Body=json.dumps({"tide": tide, "weights": weights}),
            )
            buffer = io.BytesIO()
            torch.save({"flock": flock.state_dict(), "rule": rule.state_dict()}, buffer)
            buffer.seek(0)
            store.put_object(Bucket=BUCKET, Key=f"{ROOT}/{weights}", Body=buffer)
        dist.barrier()
    if rank == 0:
        print("end", sum(part.double().sum().item() for part in flock.parameters()))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
