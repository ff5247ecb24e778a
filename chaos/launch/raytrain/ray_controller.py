"""The chaos controller on a Ray cluster, seen from another process of the run."""

from typing import Any

import ray

from chaos.launch.ray.settings import NAMESPACE
from chaos.probe.address import ControllerPort, RunAddress
from chaos.run.directory import RunDirectory
from chaos.run.held_folders import hold
from chaos.run.remote_files import build_remote_path, has_token_file, unpack_files


class RayController(ControllerPort):
    """The port to the controller's actor on a Ray cluster."""

    def __init__(self, name: str) -> None:
        self._actor = ray.get_actor(name, namespace=NAMESPACE)

    @staticmethod
    def run_directory(address: RunAddress) -> RunDirectory:
        if has_token_file(address.directory, address.token):
            return RunDirectory(address.directory)
        folder = build_remote_path(address.token, ray.get_runtime_context().get_node_id())
        hold(folder)
        actor = ray.get_actor(address.controller.partition(":")[2], namespace=NAMESPACE)
        return unpack_files(ray.get(actor.run_files.remote()), folder)

    def ask(self, question: str, *arguments: object) -> Any:  # the question's answer
        return ray.get(self._actor.ask.remote(question, *arguments))

    def tell(self, question: str, *arguments: object) -> None:
        self._actor.ask.remote(question, *arguments)
