"""Secrets are masked by their names and places; all else is readable."""

from dataclasses import replace

import pytest

from chaos.model.masking import has_secrets, is_secret, mask_text, mask_value, mask_words
from chaos.report.html import render_run
from chaos.report.outcome import FinishedRun
from chaos.report.page import build_settings


@pytest.mark.parametrize(
    "name",
    [
        *("AWS_SECRET_ACCESS_KEY", "HF_TOKEN", "WANDB_API_KEY", "DB_PASSWORD", "GITHUB_PAT_TOKEN"),
        *("apikey", "api-key", "dbPassword", "GOOGLE_APPLICATION_CREDENTIALS", "authtoken"),
        *("--hf-token", "X-Amz-Signature", "AWSAccessKeyId", "SMTP_PASS", "DB_PWD"),
    ],
)
def test_a_name_that_says_so_is_a_secret(name: str) -> None:
    assert is_secret(name)


@pytest.mark.parametrize(
    "name",
    [
        *("EPOCHS", "TOKENIZERS_PARALLELISM", "max_tokens", "tokenizer", "AUTHOR", "PWD", "keep"),
        *("OMP_NUM_THREADS", "compass", "KEEP_GOING", "SIGNAL", "passes"),
    ],
)
def test_an_ordinary_name_is_none(name: str) -> None:
    assert not is_secret(name)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("s3://key:secret@bucket/a@b?c=d@e", "s3://***@bucket/a@b?c=d@e"),
        ("from postgres://u:p@w@db:5/x on", "from postgres://***@db:5/x on"),
        (
            "s3://b?access_key=A&secret_key=S&scheme=http",
            "s3://b?access_key=***&secret_key=***&scheme=http",
        ),
        ("https://b/x?X-Amz-Signature=abc&n=1", "https://b/x?X-Amz-Signature=***&n=1"),
        ("/home/a@b", "/home/a@b"),
        ("a@b.c, EPOCHS=3", "a@b.c, EPOCHS=3"),
    ],
)
def test_uris_lose_users_passwords_and_keys(text: str, shown: str) -> None:
    assert mask_text(text) == shown


def test_a_command_line_loses_the_values_of_secret_options() -> None:
    words = ["--api-key", "abc", "--epochs", "4", "--token=t", "password=p", "s3://k:s@b", "-v"]

    shown = ["--api-key", "***", "--epochs", "4", "--token=***", "password=***", "s3://***@b", "-v"]
    assert mask_words(words) == shown


def test_nested_values_are_masked_by_the_nearest_name() -> None:
    value = {"args": {"lr": 0.1, "hub": {"token": "t", "url": "https://u:p@h"}}, "key": None}

    shown = {"args": {"lr": 0.1, "hub": {"token": "***", "url": "https://***@h"}}, "key": None}
    assert mask_value(value) == shown
    assert has_secrets(value)
    assert not has_secrets({"EPOCHS": "3", "words": ["--lr", 1]})


def test_a_report_shows_ordinary_values_and_no_secret(valid_run: FinishedRun) -> None:
    env = {"EPOCHS": "3", "HF_TOKEN": "hf_s3cr3t", "STORE": "s3://k:s3cr3t@bucket"}
    job = valid_run.plan.job.model_copy(update={"env": env, "args": {"api_key": "s3cr3t"}})
    shape = valid_run.plan.shape.model_copy(update={"storage": "s3://b?secret_key=s3cr3t"})
    plan = valid_run.plan.model_copy(update={"job": job, "shape": shape})
    run = replace(valid_run, plan=plan)
    rows = {row.name: row.value for group in build_settings(run) for row in group.rows}

    assert rows["env.EPOCHS"] == "3"
    assert rows["env.HF_TOKEN"] == "***"
    assert rows["env.STORE"] == "s3://***@bucket"
    assert "s3cr3t" not in render_run(run)
