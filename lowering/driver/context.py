"""The dialects that compiling has."""

from collections.abc import Sequence

from xdsl.context import Context
from xdsl.dialects.builtin import Builtin
from xdsl.dialects.func import Func

from ge.dialects.fused_op import FusedOps
from ge.dialects.graph import Graph
from ge.dialects.npu_task import NpuTask
from ge.lowering.plugins.extensions import universe


def context(plugins: Sequence[str] = ()) -> Context:
    """A context with the dialects of ge; others of xDSL, of installed packages and of plugin files
    are loaded when a text needs them.
    Raises GeError for a plugin that cannot be loaded."""
    ctx = Context()
    for dialect in (Builtin, Func, Graph, FusedOps, NpuTask):
        ctx.load_dialect(dialect)
    for name, factory in universe(*plugins).all_dialects.items():
        if name not in ctx.registered_dialect_names:
            ctx.register_dialect(name, factory)
    return ctx
