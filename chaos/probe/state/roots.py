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
from collections.abc import Callable, Collection, Iterable
from typing import Any, NamedTuple, Protocol

# A global hook costs time at each call of each submodule, so that the search must end also where a
# parameter that an optimizer has is never called.
SEARCH_STEPS_MAX = 16


class Owner:
    """A root by its parameters: whether an optimizer has any of them.

    A learning rate's range test, or a search among candidates, calls copies of the model that are
    then thrown away: their inputs are none of training.
    """

    def __init__(self, module: Any) -> None:  # a module of torch
        # Frozen ones as well: which are frozen changes, and not at the same step in a resumed job.
        self._parameters = [weakref.ref(parameter) for parameter in module.parameters()]
        self.is_trained = False
        self.epoch: int | None = None

    def look(self, trained: Collection[int], epoch: int) -> None:
        """Determine it for an epoch, by the ids of the parameters that optimizers have now."""
        self.epoch = epoch
        known = (parameter for ref in self._parameters if (parameter := ref()) is not None)
        self.is_trained = any(id(parameter) in trained for parameter in known)


class Begun(Protocol):
    """A call of a root that has begun."""

    def returned(self, outputs: Any) -> None:  # whatever a module returns
        """Take the outputs; None as well if the call raised."""


Call = Callable[[tuple[Any, ...], dict[str, Any], Owner], Begun | None]


class _Hooked(NamedTuple):
    root: weakref.ref[Any]
    owner: Owner
    handles: tuple[Any, ...]

    def remove(self) -> None:
        for handle in self.handles:
            handle.remove()


class Roots:
    """The roots of this process, in the order of their first call."""

    def __init__(
        self,
        called: Call,
        first_found: Callable[[], None],
        failed: Callable[[str, Exception], None],
        *,
        validates: Callable[[], None] = lambda: None,
    ) -> None:
        self._called = called
        self._validates = validates
        self._first_found = first_found
        self._failed = failed
        self._roots: list[weakref.ref[Any]] = []
        # By id, which a module of today may have from one that is gone.
        self._inside: dict[int, weakref.ref[Any]] = {}
        self._averaged: Callable[[], list[Any]] = list
        self._search: Any = None
        self._searched = 0
        self._hooked: list[_Hooked] = []
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
        self._inside = {id(p): weakref.ref(p) for root in self.all() for p in root.modules()}
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
        return [root for ref in self._roots if (root := ref()) is not None]

    def without_hooks(self, save: Callable[[], Any]) -> Any:  # what `save` gives
        """Call `save` while no root has a hook: a saved module must not contain one of chaos."""
        # A module that is saved whole would hold the hook, and with it the probe; loading it would
        # need chaos. The hooks come back in the order in which they were, after an error as well.
        hooked, self._hooked = self._hooked, []
        for known in hooked:
            known.remove()
        try:
            return save()
        finally:
            for known in hooked:
                if (root := known.root()) is not None:
                    self._hook(root, known.owner)

    def _seen(self, module: Any, args: tuple[Any, ...]) -> None:
        torch = sys.modules["torch"]
        if torch.compiler.is_compiling() or self._is_inside(module):
            return
        # Not an evaluation, and not a process that the rank forked (a data loader's has copies of
        # the modules and of this hook).
        if not module.training or not torch.is_grad_enabled() or os.getpid() != self._pid:
            return
        try:
            if self._is_root(module):
                # torch 2.13: a global forward pre-hook is called as `hook(module, args)`; unlike a
                # module's own hook it has no `with_kwargs`. A job that calls its model by keywords,
                # as Transformers do, would have no inputs at its very first step, the one that
                # shows where an attempt resumed. They are a variable of the frame that calls the
                # hook, within `Module._call_impl`. From the next call on, the root's own hook gets
                # them.
                kwargs = sys._getframe(1).f_locals.get("kwargs", {})  # noqa: SLF001 - torch passes none
                self._add(module)(module, args, kwargs)
        except Exception as error:  # noqa: BLE001 - recorded; must not fail the user's step
            self._failed("modules", error)

    def _is_inside(self, module: Any) -> bool:
        known = self._inside.get(id(module))
        return known is not None and known() is module

    def _is_root(self, module: Any) -> bool:
        if any(module is known for known in self._averaged()):
            return False
        return _is_trainable(module)

    def _add(self, module: Any) -> "RootHook":
        # Outer modules are often called later than inner ones: a part is tried out first, or a
        # model is wrapped (DDP, `torch.compile`) after its first call. Then the outer one is the
        # root, and what it contains is none any more.
        within = {id(part): weakref.ref(part) for part in module.modules()}
        for known in self._hooked:
            if id(known.root()) in within:
                known.remove()
        self._hooked = [known for known in self._hooked if id(known.root()) not in within]
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
        return self._hook(module, Owner(module))

    def _hook(self, module: Any, owner: Owner) -> "RootHook":
        hook = RootHook(self._called, self._validates, self._failed, owner)
        if getattr(module, "_compiled_call_impl", None) is not None:
            return hook  # compiled in place (torch 2.13): a hook would be compiled with it
        handles = (
            module.register_forward_pre_hook(hook, with_kwargs=True, prepend=True),
            module.register_forward_hook(ReturnHook(hook), always_call=True),
        )
        self._hooked.append(_Hooked(weakref.ref(module), owner, handles))
        return hook


class RootHook:
    """The hook of a root. A copy of the module gets a hook that does nothing."""

    def __init__(
        self,
        called: Call,
        validates: Callable[[], None],
        failed: Callable[[str, Exception], None],
        owner: Owner,
    ) -> None:
        self._called = called
        self._validates = validates
        self._failed = failed
        self._owner = owner
        self._pid = os.getpid()
        # Calls that have not returned, the innermost last: a root may call itself.
        self._begun: list[Begun | None] = []

    def __call__(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Pass on a call in training, and that there is one in evaluation without gradients."""
        torch = sys.modules["torch"]
        if torch.compiler.is_compiling() or os.getpid() != self._pid:
            return
        self._begun.append(None)
        has_gradients = torch.is_grad_enabled()
        if not module.training and not has_gradients and _is_trainable(module):
            self._validates()  # may raise an injected error, which is meant for the job
        if not module.training or not has_gradients:
            return
        try:
            self._begun[-1] = self._called(args, kwargs, self._owner)
        except Exception as error:  # noqa: BLE001 - recorded; must not fail the user's step
            self._failed("inputs", error)

    def returned(self, outputs: Any) -> None:  # whatever a module returns
        """Pass on what the call returned, if it is one in training."""
        begun = self._begun.pop() if self._begun else None
        if begun is None:
            return
        try:
            begun.returned(outputs)
        except Exception as error:  # noqa: BLE001 - recorded; must not fail the user's step
            self._failed("outputs", error)

    def __reduce__(self) -> tuple[type["NoHook"], tuple[()]]:
        """Return a hook that does nothing, for copies and pickles."""
        return NoHook, ()


def _is_trainable(module: Any) -> bool:
    """Return whether a module can be trained: one that was, and is frozen now, is a teacher."""
    return any(parameter.requires_grad for parameter in module.parameters())


class ReturnHook:
    """The hook of a root after its call. A copy of the module gets one that does nothing."""

    def __init__(self, before: RootHook) -> None:
        self._before = before

    def __call__(self, module: Any, args: tuple[Any, ...], outputs: Any) -> None:
        """Pass on what the call returned."""
        del module, args
        if not sys.modules["torch"].compiler.is_compiling():
            self._before.returned(outputs)

    def __reduce__(self) -> tuple[type["NoHook"], tuple[()]]:
        """Return a hook that does nothing, for copies and pickles."""
        return NoHook, ()


class NoHook:
    """The hook of a copied root."""

    def __call__(self, *_: Any) -> None:
        """Do nothing."""
