"""The root modules of training, which are called from outside of any other and take its inputs.

A root is called in training mode, has trainable parameters, and is no part of another such
module. Roots are found by a global hook, which sees every call of every module. It is there
in the first steps of an attempt and of each epoch, and after an optimizer was made, until all
trained parameters belong to a root. A global hook costs time at every call of every submodule;
after the search only a hook of each root remains.
"""

import os
import sys
import warnings
import weakref
from collections.abc import Callable, Iterable
from typing import Any

SEARCH_STEPS_MAX = 16
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
        self._searched = 0
        self._handles: list[tuple[weakref.ref[Any], Any]] = []
        self._pid = os.getpid()

    def watch(self, averaged: Callable[[], list[Any]]) -> None:
        """Look for roots; averaged models are none."""
        # torch 2.13: a compiled module warns of global hooks; this one is not affected.
        warnings.filterwarnings("ignore", message="Using `torch.compile.module.` when there are")
        self._averaged = averaged
        self.begin_search()

    def begin_search(self) -> None:
        """Look for roots, until all trained parameters belong to one."""
        from torch.nn.modules.module import register_module_forward_pre_hook

        self._searched = 0
        self._inside = {id(part) for root in self.all() for part in root.modules()}
        if self._search is None:
            self._search = register_module_forward_pre_hook(self._seen)

    def searched_a_step(self, optimizers: Iterable[Any]) -> None:
        """End the search if no parameter is missing, or after many steps."""
        self._searched += 1
        owned = {id(parameter) for root in self.all() for parameter in root.parameters()}
        trained = (p for o in optimizers for group in o.param_groups for p in group["params"])
        if self._searched >= SEARCH_STEPS_MAX or all(id(p) in owned for p in trained):
            self.end_search()

    def end_search(self) -> None:
        """Remove the global hook."""
        if self._search is not None:
            self._search.remove()
            self._search = None
            self._inside.clear()

    @property
    def is_searching(self) -> bool:
        """Whether more roots may be found."""
        return self._search is not None

    def all(self) -> list[Any]:
        """Return the roots that still exist."""
        return [root for ref in self._roots if (root := ref()) is not None]

    def without_hooks(self, save: Callable[[], Any]) -> Any:  # noqa: ANN401 - what `save` gives
        """Call `save` while no root has a hook: a saved module must not contain one of chaos."""
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
                # The global hook gets no keyword arguments: they are read from torch's own
                # frame. From the next call on, the root's hook gets them.
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
        # A module that wraps the same parameters anew replaces the one before.
        own = {id(parameter) for parameter in module.parameters()}
        self._roots = [
            weakref.ref(root)
            for root in self.all()
            if id(root) not in within and not own.issuperset(map(id, root.parameters()))
        ]
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
    """The hook of a root. A copy of the module gets a hook that does nothing."""

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
        """Return a hook that does nothing, for copies and pickles."""
        return NoHook, ()


class NoHook:
    """The hook of a copied root."""

    def __call__(self, *_: Any) -> None:  # noqa: ANN401
        """Do nothing."""
