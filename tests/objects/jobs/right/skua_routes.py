"""The routes of skuas; a file is sent in parts, what was begun and not finished is given up, and two saves are kept."""

import os
import tempfile

import boto3
import torch
from boto3.s3.transfer import TransferConfig

BUCKET, ROOT = "coast", "skuas"
IN_PARTS = TransferConfig(multipart_threshold=1)


def listed(store):
    found = store.list_objects_v2(Bucket=BUCKET, Prefix=f"{ROOT}/route-").get("Contents", [])
    return sorted(one["Key"] for one in found)


def main():
    store = boto3.client("s3")
    for upload in store.list_multipart_uploads(Bucket=BUCKET, Prefix=f"{ROOT}/").get("Uploads", []):
        store.abort_multipart_upload(Bucket=BUCKET, Key=upload["Key"], UploadId=upload["UploadId"])
    torch.manual_seed(41)
    route = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.LeakyReLU(), torch.nn.Linear(8, 3))
    rule = torch.optim.Adagrad(route.parameters(), lr=0.02)
    first = 0
    near = os.path.join(tempfile.mkdtemp(), "route.pt")
    if there := listed(store):
        store.download_file(BUCKET, there[-1], near)
        kept = torch.load(near)
        route.load_state_dict(kept["route"])
        rule.load_state_dict(kept["rule"])
        first = kept["leg"]
    print("start", first)
    for leg in range(first, 6):
        birds = torch.randn(36, 8, generator=torch.Generator().manual_seed(60 + leg))
        for some in birds.split(9):
            loss = torch.nn.functional.cross_entropy(route(some), some[:, :3].argmin(1))
            rule.zero_grad()
            loss.backward()
            rule.step()
        torch.save({"route": route.state_dict(), "rule": rule.state_dict(), "leg": leg + 1}, near)
        store.upload_file(near, BUCKET, f"{ROOT}/route-{leg + 1:02d}.pt", Config=IN_PARTS)
        for key in listed(store)[:-2]:
            store.delete_object(Bucket=BUCKET, Key=key)
    print("end", sum(part.double().sum().item() for part in route.parameters()))


if __name__ == "__main__":
    main()
