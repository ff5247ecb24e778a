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
from typing import Any, NamedTuple

from chaos.probe.state.inputs import ModuleCall, Owner
from chaos.probe.training_listener import TrainingListener

# A global hook costs time at each call of each submodule, so that the search must end also where a
# parameter that an optimizer has is never called.
SEARCH_STEPS_MAX = 16


class _HookedRoot(NamedTuple):
    root: weakref.ref[Any]
    owner: Owner
    handles: tuple[Any, ...]

    def remove(self) -> None:
        for handle in self.handles:
            handle.remove()


class RootModules:
    """The roots of this process, in the order of their first call."""

    def __init__(
        self, listener: TrainingListener, report_failure: Callable[[str, Exception], None]
    ) -> None:
        self._listener, self._report_failure = listener, report_failure
        self._roots: list[weakref.ref[Any]] = []
        # By id, which a module of today may have from one that is gone.
        self._inner_modules: dict[int, weakref.ref[Any]] = {}
        self._list_averaged: Callable[[], list[Any]] = list
        self._search_handle: Any = None
        self._searched_steps = 0
        self._hooked_roots: list[_HookedRoot] = []
        self._pid = os.getpid()

    def watch(self, list_averaged: Callable[[], list[Any]]) -> None:
        """Look for roots; averaged models are none."""
        # torch 2.13: a compiled module warns of global hooks; this one is not affected.
        warnings.filterwarnings("ignore", message="Using `torch.compile.module.` when there are")
        self._list_averaged = list_averaged
        self.begin_search()

    def begin_search(self) -> None:
        """Look for roots, until all trained parameters belong to one."""
        from torch.nn.modules.module import register_module_forward_pre_hook

        self._searched_steps = 0
        self._inner_modules = {
            id(p): weakref.ref(p) for root in self.list_roots() for p in root.modules()
        }
        if self._search_handle is None:
            self._search_handle = register_module_forward_pre_hook(self._on_module_call)

    def count_searched_step(self, optimizers: Iterable[Any]) -> None:
        """End the search if no parameter is missing, or after many steps."""
        self._searched_steps += 1
        root_ids = {id(member) for root in self.list_roots() for member in root.parameters()}
        groups = (group for optimizer in optimizers for group in optimizer.param_groups)
        trained_ids = {id(member) for group in groups for member in group["params"]}
        if self._searched_steps >= SEARCH_STEPS_MAX or trained_ids <= root_ids:
            self.end_search()

    def end_search(self) -> None:
        """Remove the global hook."""
        if self._search_handle is not None:
            self._search_handle.remove()
            self._search_handle = None
            self._inner_modules.clear()

    @property
    def is_searching(self) -> bool:
        """Whether more roots may be found."""
        return self._search_handle is not None

    def list_roots(self) -> list[Any]:
        return [root for ref in self._roots if (root := ref()) is not None]

    def call_unhooked(self, save: Callable[[], Any]) -> Any:  # what `save` gives
        """Call `save` while no root has a hook: a saved module must not contain one of chaos."""
        # A module that is saved whole would hold the hook, and with it the probe; loading it would
        # need chaos. The hooks come back in the order in which they were, after an error as well.
        hooked_roots, self._hooked_roots = self._hooked_roots, []
        for hooked_root in hooked_roots:
            hooked_root.remove()
        try:
            return save()
        finally:
            for hooked_root in hooked_roots:
                if (root := hooked_root.root()) is not None:
                    self._install_hook(root, hooked_root.owner)

    def _on_module_call(self, module: Any, args: tuple[Any, ...]) -> None:
        torch = sys.modules["torch"]
        if torch.compiler.is_compiling() or self._is_inner_module(module):
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
                self._add_root(module)(module, args, kwargs)
        except Exception as error:  # noqa: BLE001 - recorded; must not fail the user's step
            self._report_failure("modules", error)

    def _is_inner_module(self, module: Any) -> bool:
        module_reference = self._inner_modules.get(id(module))
        return module_reference is not None and module_reference() is module

    def _is_root(self, module: Any) -> bool:
        if any(module is averaged for averaged in self._list_averaged()):
            return False
        return _is_trainable(module)

    def _add_root(self, module: Any) -> "RootHook":
        # Outer modules are often called later than inner ones: a part is tried out first, or a
        # model is wrapped (DDP, `torch.compile`) after its first call. Then the outer one is the
        # root, and what it contains is none any more.
        inner_modules = {id(part): weakref.ref(part) for part in module.modules()}
        for hooked_root in self._hooked_roots:
            if id(hooked_root.root()) in inner_modules:
                hooked_root.remove()
        self._hooked_roots = [
            hooked_root
            for hooked_root in self._hooked_roots
            if id(hooked_root.root()) not in inner_modules
        ]
        # A module that wraps the same parameters anew replaces the one before.
        parameter_ids = {id(parameter) for parameter in module.parameters()}
        self._roots = [
            weakref.ref(root)
            for root in self.list_roots()
            if id(root) not in inner_modules
            and not parameter_ids.issuperset(map(id, root.parameters()))
        ]
        self._inner_modules |= inner_modules
        self._roots.append(weakref.ref(module))
        if len(self._roots) == 1:
            self._listener.root_found()
        return self._install_hook(module, Owner(module))

    def _install_hook(self, module: Any, owner: Owner) -> "RootHook":
        hook = RootHook(self._listener, self._report_failure, owner)
        if getattr(module, "_compiled_call_impl", None) is not None:
            return hook  # compiled in place (torch 2.13): a hook would be compiled with it
        handles = (
            module.register_forward_pre_hook(hook, with_kwargs=True, prepend=True),
            module.register_forward_hook(ReturnHook(hook), always_call=True),
        )
        self._hooked_roots.append(_HookedRoot(weakref.ref(module), owner, handles))
        return hook


class RootHook:
    """The hook of a root. A copy of the module gets a hook that does nothing."""

    def __init__(
        self,
        listener: TrainingListener,
        report_failure: Callable[[str, Exception], None],
        owner: Owner,
    ) -> None:
        self._listener, self._report_failure = listener, report_failure
        self._owner = owner
        self._pid = os.getpid()
        # Calls that have not returned, the innermost last: a root may call itself.
        self._running_calls: list[ModuleCall | None] = []

    def __call__(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Pass on a call in training, and that there is one in evaluation without gradients."""
        torch = sys.modules["torch"]
        if torch.compiler.is_compiling() or os.getpid() != self._pid:
            return
        self._running_calls.append(None)
        has_gradients = torch.is_grad_enabled()
        if not module.training and not has_gradients and _is_trainable(module):
            # It may raise an injected error, which is meant for the job.
            self._listener.validation_begins()
        if not module.training or not has_gradients:
            return
        try:
            self._running_calls[-1] = self._listener.model_called(args, kwargs, self._owner)
        except Exception as error:  # noqa: BLE001 - recorded; must not fail the user's step
            self._report_failure("inputs", error)

    def record_return(self, outputs: Any) -> None:  # whatever a module returns
        """Pass on what the call returned, if it is one in training."""
        running_call = self._running_calls.pop() if self._running_calls else None
        if running_call is None:
            return
        try:
            running_call.record_return(outputs)
        except Exception as error:  # noqa: BLE001 - recorded; must not fail the user's step
            self._report_failure("outputs", error)

    def __reduce__(self) -> tuple[type["CopiedRootHook"], tuple[()]]:
        """Return a hook that does nothing, for copies and pickles."""
        return CopiedRootHook, ()


def _is_trainable(module: Any) -> bool:
    """Return whether a module can be trained: one that was, and is frozen now, is a teacher."""
    return any(parameter.requires_grad for parameter in module.parameters())


class ReturnHook:
    """The hook of a root after its call. A copy of the module gets one that does nothing."""

    def __init__(self, root_hook: RootHook) -> None:
        self._root_hook = root_hook

    def __call__(self, module: Any, args: tuple[Any, ...], outputs: Any) -> None:
        """Pass on what the call returned."""
        del module, args
        if not sys.modules["torch"].compiler.is_compiling():
            self._root_hook.record_return(outputs)

    def __reduce__(self) -> tuple[type["CopiedRootHook"], tuple[()]]:
        """Return a hook that does nothing, for copies and pickles."""
        return CopiedRootHook, ()


class CopiedRootHook:
    """The hook of a copied root."""

    def __call__(self, *_: Any) -> None:
        """Do nothing."""
