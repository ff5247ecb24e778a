"""The modules that training calls from outside of any other: where its inputs go in.

They are found while the first optimizer step is made, by a hook that sees
every call of every module and is then taken away. What is called in training
mode, has trainable parameters and is no part of another such module is a root.
"""

import os
import sys
import warnings
import weakref
from collections.abc import Callable
from typing import Any

Call = Callable[[tuple[Any, ...], dict[str, Any]], None]


class Roots:
    """The roots of this process, in the order of their first call."""

    def __init__(
        self,
        called: Call,
        first_found: Callable[[], None],
        failed: Callable[[str, Exception], None],
    ) -> None:
        self._called = called
        self._first_found = first_found
        self._failed = failed
        self._roots: list[weakref.ref[Any]] = []
        self._inside: set[int] = set()
        self._averaged: Callable[[], list[Any]] = list
        self._search: Any = None
        self._handles: list[tuple[weakref.ref[Any], Any]] = []
        self._pid = os.getpid()

    def begin_search(self, averaged: Callable[[], list[Any]]) -> None:
        """Look for roots until `end_search`; averaged models are none."""
        from torch.nn.modules.module import register_module_forward_pre_hook

        # torch 2.13: a compiled module says so of global hooks; ours does not mind, and goes soon.
        warnings.filterwarnings("ignore", message="Using `torch.compile.module.` when there are")
        self._averaged = averaged
        self._search = register_module_forward_pre_hook(self._seen)

    def end_search(self) -> None:
        """Look no more: every attempt must know the same roots as it enters an epoch."""
        if self._search is not None:
            self._search.remove()
            self._search = None
            self._inside.clear()

    @property
    def is_searching(self) -> bool:
        """Whether more of them may be found."""
        return self._search is not None

    def all(self) -> list[Any]:
        """Give the roots that are still there."""
        return [root for ref in self._roots if (root := ref()) is not None]

    def without_hooks(self, save: Callable[[], Any]) -> Any:  # noqa: ANN401 - what `save` gives
        """Do something while no root carries a hook: a saved module must not contain ours."""
        hooked = [root for ref, handle in self._handles if (root := ref()) is not None]
        for _, handle in self._handles:
            handle.remove()
        try:
            return save()
        finally:
            self._handles = []
            for root in hooked:
                self._hook(root)

    def _seen(self, module: Any, args: tuple[Any, ...]) -> None:  # noqa: ANN401
        torch = sys.modules["torch"]
        if torch.compiler.is_compiling() or id(module) in self._inside:
            return
        if not module.training or not torch.is_grad_enabled() or os.getpid() != self._pid:
            return
        try:
            if self._is_root(module):
                kwargs = sys._getframe(1).f_locals.get("kwargs", {})  # noqa: SLF001 - torch passes none
                self._add(module)
                self._called(args, kwargs)
        except Exception as error:  # noqa: BLE001 - recorded; must not fail the user's step
            self._failed("modules", error)

    def _is_root(self, module: Any) -> bool:  # noqa: ANN401
        if any(module is known for known in self._averaged()):
            return False
        return any(parameter.requires_grad for parameter in module.parameters())

    def _add(self, module: Any) -> None:  # noqa: ANN401
        within = {id(part) for part in module.modules()}
        for ref, handle in self._handles:
            if id(ref()) in within:
                handle.remove()
        self._handles = [pair for pair in self._handles if id(pair[0]()) not in within]
        self._roots = [ref for ref in self._roots if id(ref()) not in within]
        self._inside |= within
        self._roots.append(weakref.ref(module))
        if len(self._roots) == 1:
            self._first_found()
        self._hook(module)

    def _hook(self, module: Any) -> None:  # noqa: ANN401
        if getattr(module, "_compiled_call_impl", None) is not None:
            return  # compiled in place (torch 2.13): a hook would be compiled with it
        hook = RootHook(self._called, self._failed)
        handle = module.register_forward_pre_hook(hook, with_kwargs=True, prepend=True)
        self._handles.append((weakref.ref(module), handle))


class RootHook:
    """What a root carries. A copy of the module carries a hook that does nothing."""

    def __init__(self, called: Call, failed: Callable[[str, Exception], None]) -> None:
        self._called = called
        self._failed = failed
        self._pid = os.getpid()

    def __call__(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:  # noqa: ANN401
        """Pass on a call in training."""
        torch = sys.modules["torch"]
        if not module.training or not torch.is_grad_enabled() or os.getpid() != self._pid:
            return
        try:
            self._called(args, kwargs)
        except Exception as error:  # noqa: BLE001 - recorded; must not fail the user's step
            self._failed("inputs", error)

    def __reduce__(self) -> tuple[type["NoHook"], tuple[()]]:
        """Be copied and pickled as nothing."""
        return NoHook, ()


class NoHook:
    """Stands where a copied module's hook was."""

    def __call__(self, *_: Any) -> None:  # noqa: ANN401
        """Do nothing."""
