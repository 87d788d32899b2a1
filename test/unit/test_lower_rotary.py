"""Tile programs rotate pairs of elements as the kernels' bodies do, bit for bit."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from tile_lowering import compare, lowered


def rotary(x: str, table: str, flags: str, dtype: str) -> str:
    x, table = f"tensor<{x}x{dtype}>", f"tensor<{table}x{dtype}>"
    return f"""func.func @main(%x: {x}, %cos: {table}, %sin: {table}) -> {x} {{
      %r = graph.rotary_embedding %x, %cos, %sin {flags} : ({x}, {table}, {table}) -> {x}
      func.return %r : {x}
    }}"""


FULL, NEIGHBOURS = "full_tables true", "interleaved true"


@pytest.mark.parametrize(
    ("x", "table", "flags", "dtype"),
    [
        ("2x5x3x32", "1x5x1x16", "", "f32"),
        ("2x3x5x16", "5x8", "", "f16"),
        ("2x3x5x16", "2x1x5x16", FULL, "bf16"),
        ("2x3x5x48", "5x16", FULL, "f16"),
        ("2x3x1x32", "1x16", NEIGHBOURS, "f32"),
        ("2x3x5x32", "5x16", NEIGHBOURS, "f16"),
        ("2x3x5x16", "2x1x5x8", NEIGHBOURS, "f16"),
        ("2x3x5x48", "5x32", f"{FULL} {NEIGHBOURS}", "bf16"),
    ],
)
def test_pairs_are_rotated(x: str, table: str, flags: str, dtype: str) -> None:
    compare(rotary(x, table, flags, dtype), all_lowered=True, exact=True)


def test_rows_that_cannot_be_addressed_are_not_rotated() -> None:
    result = lowered(rotary("2x3x5x12", "5x6", "", "f16"))
    assert "not rotated in parts of 32 bytes" in result.reasons[0]
