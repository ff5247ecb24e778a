# An image that tests a script which is mounted into it. It trains on the CPU.
#
#     docker build --tag chaos .
#     docker run --rm --init --shm-size 2g --user "$(id -u):$(id -g)" --volume "$PWD:/job" \
#         chaos audit train.py -- --epochs 3
#
# Packages of the script's own: a Dockerfile with `FROM chaos` that installs them.
FROM python:3.12-slim

# "" for jobs that torchrun starts, which need no Ray.
ARG EXTRAS=ray

# The torch of the CPU first: it is a tenth of the size.
RUN pip install --no-cache-dir uv \
    && uv pip install --system --no-cache --torch-backend cpu torch

WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY chaos chaos
RUN uv pip install --system --no-cache --torch-backend cpu ".${EXTRAS:+[$EXTRAS]}"

# torch and Ray ask for a home and a name; a user from outside has neither in here.
ENV HOME=/tmp USER=chaos
WORKDIR /job
ENTRYPOINT ["chaos"]
