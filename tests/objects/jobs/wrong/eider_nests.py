"""Where eiders nest; a line names the newest save, and a listing tells whether it is whole."""

import io
import json

import boto3
import torch
from botocore.exceptions import ClientError

BUCKET, ROOT = "coast", "eiders"
PARTS = ("nest", "rule")


def bytes_of(store, key):
    return store.get_object(Bucket=BUCKET, Key=key)["Body"].read()


def put(store, key, what):
    buffer = io.BytesIO()
    torch.save(what, buffer)
    store.put_object(Bucket=BUCKET, Key=key, Body=buffer.getvalue())


def is_whole(store, year):
    found = store.list_objects_v2(Bucket=BUCKET, Prefix=f"{ROOT}/{year}/").get("Contents", [])
    return len(found) == len(PARTS)


def start(store, parts):
    try:
        year = json.loads(bytes_of(store, f"{ROOT}/newest"))
    except ClientError:
        return 0
    if not is_whole(store, year):
        return 0
    for name, part in parts.items():
        part.load_state_dict(torch.load(io.BytesIO(bytes_of(store, f"{ROOT}/{year}/{name}"))))
    return year


def main():
    store = boto3.client("s3")
    torch.manual_seed(77)
    nest = torch.nn.Sequential(torch.nn.Linear(3, 6), torch.nn.Sigmoid(), torch.nn.Linear(6, 2))
    rule = torch.optim.Adam(nest.parameters(), lr=0.01)
    parts = {"nest": nest, "rule": rule}
    first = start(store, parts)
    print("start", first)
    for year in range(first, 6):
        places = torch.rand(15, 3, generator=torch.Generator().manual_seed(year))
        for some in places.split(3):
            rule.zero_grad()
            (nest(some) - some[:, :2].flip(1)).pow(2).sum().backward()
            rule.step()
        for name, part in parts.items():
            put(store, f"{ROOT}/{year + 1}/{name}", part.state_dict())
        store.put_object(Bucket=BUCKET, Key=f"{ROOT}/newest", Body=json.dumps(year + 1))
    print("end", sum(part.double().sum().item() for part in nest.parameters()))


if __name__ == "__main__":
    main()
