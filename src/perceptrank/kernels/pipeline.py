"""Compilation of kernels by those of Numba's passes that they need, with helpers as parts of them.

Numba optimises a function that only other kernels call by itself, and again in each of these. Here a helper is kept as
it is before, and optimised in the kernels that call it.
"""

import pkgutil
from typing import Any

import llvmlite.binding
import numba


def look_up(*names: str) -> tuple[list[Any], str]:
    """Return the parts of Numba of these names, and if one is missing, what kernels are not cached for."""
    try:
        return [pkgutil.resolve_name(name) for name in names], ""
    except (ImportError, AttributeError) as error:
        return [None] * len(names), f"the cache does not fit Numba {numba.__version__} ({error})"


CONFIG: Any = numba.config

# What is left out rewrites closures, array expressions and `with`, and counts references, which kernels have none of.
(*_PASSES, _LOWERING, _LAST, _COMPILER, _MANAGER, _register, _LIBRARY), UNFIT = look_up(
    *(
        f"numba.core.untyped_passes:{name}"
        for name in ("TranslateByteCode", "FixupArgs", "IRProcessing", "RewriteSemanticConstants", "DeadBranchPrune")
    ),
    "numba.core.untyped_passes:GenericRewrites",
    "numba.core.untyped_passes:ReconstructSSA",
    "numba.core.typed_passes:NopythonTypeInference",
    "numba.core.typed_passes:PreLowerStripPhis",
    "numba.core.typed_passes:AnnotateTypes",
    "numba.core.typed_passes:NativeLowering",
    "numba.core.typed_passes:NoPythonBackend",
    "numba.core.compiler:CompilerBase",
    "numba.core.compiler_machinery:PassManager",
    "numba.core.compiler_machinery:register_pass",
    "numba.core.codegen:JITCodeLibrary",
)


class _KernelCode(_LIBRARY or object):  # type: ignore[misc]
    """Code of a kernel and of the helpers that it calls."""

    def _optimize_functions(self, module: Any) -> None:
        module.data_layout = self._codegen._data_layout  # they are optimised when all of them are there

    def _optimize_final_module(self) -> None:
        cheap, builder = self._codegen._module_pass_manager(
            loop_vectorize=False, slp_vectorize=False, opt=0, cost="cheap"
        )
        cheap.run(self._final_module, builder)
        # Helpers are small before they are optimised. All of them in one function are slow, to compile and to run.
        options = llvmlite.binding.create_pipeline_tuning_options(int(CONFIG.OPT))
        options.loop_vectorization, options.slp_vectorization = CONFIG.LOOP_VECTORIZE, CONFIG.SLP_VECTORIZE
        options.inlining_threshold = 25
        builder = llvmlite.binding.create_pass_builder(self._codegen._tm, options)
        builder.getModulePassManager().run(self._final_module, builder)


class _HelperCode(_LIBRARY or object):  # type: ignore[misc]
    """Code of a helper and of those that it calls, to be linked into that of kernels."""

    def finalize(self) -> None:
        """Link the code of the helpers that it calls."""
        for library in dict.fromkeys(self._linking_libraries):
            self._final_module.link_in(library._get_module_for_linking(), preserve=True)
        self._finalized = True


class _Lowering(_LOWERING or object):  # type: ignore[misc]
    """The pass that makes code for LLVM."""

    code: type[_KernelCode | _HelperCode] = _KernelCode

    def run_pass(self, state: Any) -> bool:
        state.library = self.code(state.targetctx.codegen(), state.func_id.func_qualname)
        state.library.enable_object_caching()
        state.flags.no_compile = self.code is _HelperCode
        return bool(super().run_pass(state))


class _HelperLowering(_Lowering):
    code = _HelperCode


class KernelCompiler(_COMPILER or object):  # type: ignore[misc]
    """The compiler of kernels that allocate nothing."""

    lowering = _Lowering

    def define_pipelines(self) -> list[Any]:
        """Return the passes."""
        manager = _MANAGER("kernel")
        for each in (*_PASSES, self.lowering, _LAST):
            manager.add_pass(each, each._name)
        manager.finalize()
        return [manager]


class HelperCompiler(KernelCompiler):
    """The compiler of what only kernels call."""

    lowering = _HelperLowering


if not UNFIT:
    for each in (_Lowering, _HelperLowering):
        _register(mutates_CFG=True, analysis_only=False)(each)
