"""In a pod its service account connects."""

from collections.abc import Callable
from types import SimpleNamespace

import pytest

from chaos.errors import UsageError
from chaos.extensions.cluster.reclaim import pods
from chaos.extensions.cluster.reclaim.connect import build_reclaimer
from chaos.extensions.cluster.reclaim.pods import KubernetesPods


class NoFileError(Exception):
    """`kubernetes.config.ConfigException`."""


def no_file() -> None:
    raise NoFileError("no configuration found")


def kubernetes_client(*, in_cluster: Callable[[], None]) -> SimpleNamespace:
    """Return the client as it is in a pod, where there is no file."""
    config = SimpleNamespace(
        load_kube_config=no_file, ConfigException=NoFileError, load_incluster_config=in_cluster
    )
    return SimpleNamespace(config=config, client=SimpleNamespace(CoreV1Api=lambda: "core"))


def test_in_a_pod_its_service_account_connects(monkeypatch: pytest.MonkeyPatch) -> None:
    library = kubernetes_client(in_cluster=lambda: None)
    monkeypatch.setattr(pods, "import_client", lambda *_, **__: library)

    assert build_reclaimer("kubernetes:jobs") == KubernetesPods("core", "jobs")


def test_a_client_without_settings_is_the_callers_to_put_right(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    library = kubernetes_client(in_cluster=no_file)
    monkeypatch.setattr(pods, "import_client", lambda *_, **__: library)

    with pytest.raises(UsageError, match="kubernetes:jobs cannot be reached: no configuration"):
        build_reclaimer("kubernetes:jobs")
