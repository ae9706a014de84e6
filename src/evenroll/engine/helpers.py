"""Helpers: functions that only compiled code calls. They become machine code as a part of their callers, never alone.

Numba makes every function that compiled code calls ready to be called by itself, and from Python too: it optimises it, turns
it into machine code and wraps it twice. Most of the functions behind a piece are a few lines that end up inside the piece,
where all of this is done once more. So a helper stops before it: what callers get is the code as it was translated, and
what they make of it is optimised with them. That saves about a third of what compiling cost.

The loops over registers (`simd.over_columns`) that steps spend most of their time in are optimised by themselves as well.
Else a step of ROS on a network takes 5 to 10 % longer, and one of `auto` 3 %; tables showed no difference beyond the noise.
"""

from __future__ import annotations

from typing import Any

from numba import njit
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler

from evenroll.engine.pieces import INTERPRETED

LEFT_OUT = {
    "WithLifting",
    "InlineClosureLikes",
    "RewriteDynamicRaises",
    "MakeFunctionToJitFunction",
    "InlineInlinables",
    "FindLiterallyCalls",
    "LiteralUnroll",
    "InlineOverloads",
    "DumpParforDiagnostics",
}


class _Inner(JITCodeLibrary):
    """The translated code of a helper, for callers to link. It has no machine code, hence no addresses either."""

    class _Nowhere:
        """Numba asks for this to tell a function's machine code where its Python objects are; helpers have neither."""

        def set_env(self, name: str, environment: Any) -> None:
            pass

    @property
    def codegen(self) -> Any:
        return self._Nowhere()

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        self._ensure_finalized()
        return 0


class _Plain(_Inner):
    """The same, without having been optimised: callers do it."""

    def _optimize_functions(self, module: Any) -> None:
        module.data_layout = self._codegen._data_layout

    def _optimize_final_module(self) -> None:
        pass


class _HelperCompiler(Compiler):
    """Numba's compiler without what it does for closures, `with`, and code that is inlined before its types are known."""

    library: type[_Inner] = _Plain

    def define_pipelines(self) -> Any:
        state = self.state
        state.library = self.library(state.targetctx.codegen(), state.func_id.func_qualname)
        state.library.enable_object_caching()
        (steps,) = super().define_pipelines()
        steps.passes = [step for step in steps.passes if step[0].__name__ not in LEFT_OUT]
        steps.finalize()
        return [steps]


class _LoopCompiler(_HelperCompiler):
    library = _Inner


class Helper:
    """A function as compiled code calls it. Python may call it too; it is then plain Python."""

    def __init__(self, function: Any, compiler: type[_HelperCompiler], options: dict[str, Any]) -> None:
        self.function = function
        plain = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True, "no_rewrites": True}
        self._dispatcher = njit(pipeline_class=compiler, **plain, **options)(function)
        self.__name__, self.__doc__, self.__module__ = function.__name__, function.__doc__, function.__module__

    @property
    def _numba_type_(self) -> Any:
        return self._dispatcher._numba_type_

    def __call__(self, *arguments: Any) -> Any:
        return self.function(*arguments)


def helper(function: Any = None, *, optimised: bool = False, **options: Any) -> Any:
    """Declare a function to be a helper: `@helper`, or with options of Numba's `njit`, `@helper(forceinline=True)`.

    optimised  whether it is optimised by itself before its callers are
    """
    if function is None:
        return lambda function: helper(function, optimised=optimised, **options)
    return function if INTERPRETED else Helper(function, _LoopCompiler if optimised else _HelperCompiler, options)
