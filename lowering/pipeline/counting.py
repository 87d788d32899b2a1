"""How much there is in a module."""

from xdsl.dialects.builtin import ModuleOp

from ge.dialects.support.operation import regions_of


def count_ops(module: ModuleOp) -> int:
    """The ops of a module, itself and those in regions included."""
    count, blocks = 1, list(module.body.blocks)
    while blocks:
        op = blocks.pop().first_op
        while op is not None:
            count += 1
            for region in regions_of(op):
                blocks.extend(region.blocks)
            op = op.next_op
    return count
