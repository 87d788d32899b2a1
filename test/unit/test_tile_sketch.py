"""What is left of the memories beside a tile program, and what a program computes once."""

import sys
from collections import Counter
from pathlib import Path

import pytest
from xdsl.dialects.arith import Arith

from ge.dialects.targets.target import Target
from ge.runtime.library.launch import Launch
from ge.runtime.library.programs import bytes_left, program_of
from ge.runtime.library.table import BY_ENGINE, BY_OP, lowering_at, lowering_of

sys.path.insert(0, str(Path(__file__).parent))
from tile_lowering import lowered

TARGET = Target.load("910b2")
X = "tensor<300x5000xf32>"
TEXTS = {
    "rows": f"""func.func @main(%x: {X}) -> {X} {{
      %r = graph.softmax %x axis 1 : ({X}) -> {X}
      func.return %r : {X}
    }}""",
    "matmul": """func.func @main(%x: tensor<96x64xf16>, %w: tensor<64x80xf16>, %b: tensor<80xf16>)
        -> tensor<96x80xf16> {
      %0 = graph.matmul %x, %w : (tensor<96x64xf16>, tensor<64x80xf16>) -> tensor<96x80xf16>
      %1 = graph.add %0, %b : (tensor<96x80xf16>, tensor<80xf16>) -> tensor<96x80xf16>
      %2 = graph.tanh %1 : (tensor<96x80xf16>) -> tensor<96x80xf16>
      func.return %2 : tensor<96x80xf16>
    }""",
    "attention": """func.func @main(%q: tensor<1x2x40x64xf16>, %k: tensor<1x2x70x64xf16>,
        %v: tensor<1x2x70x64xf16>) -> tensor<1x2x40x64xf16> {
      %r = graph.attention %q, %k, %v offset 30 causal true
        : (tensor<1x2x40x64xf16>, tensor<1x2x70x64xf16>, tensor<1x2x70x64xf16>)
          -> tensor<1x2x40x64xf16>
      func.return %r : tensor<1x2x40x64xf16>
    }""",
    "transpose": """func.func @main(%x: tensor<40x3x70xf32>)
        -> tensor<70x3x40xf32> {
      %r = graph.transpose %x permutation [2, 1, 0]
        : (tensor<40x3x70xf32>) -> tensor<70x3x40xf32>
      func.return %r : tensor<70x3x40xf32>
    }""",
}


@pytest.mark.parametrize("kind", TEXTS)
def test_room_is_what_the_buffers_of_the_program_leave(kind: str):
    for kernel, _ in lowered(TEXTS[kind]).pairs:
        launch = Launch(kernel, TARGET)
        written = lowering_of(launch)(launch)
        programs, taken = program_of(launch, "program", written).programs, Counter[str]()
        for op in (op for p in programs for op in p.allocs):
            taken[op.tile.space] += op.copies * op.copy_bytes
        left = bytes_left(launch, written)
        assert taken == {m: TARGET.core_memories[m] - room for m, room in left.items()}
        for block in (b for p in programs for b in p.walk_blocks()):
            ops = [op for op in block.ops if type(op) in Arith.operations]
            known = {(op.name, *map(id, op.operands), *op.properties.items()) for op in ops}
            assert len(known) == len(ops), "what is computed is not computed again"


def test_each_lowering_of_the_table_is_there() -> None:
    for place in (*BY_OP.values(), *BY_ENGINE.values()):
        assert lowering_at(place).__name__ == place.rpartition(".")[2]
