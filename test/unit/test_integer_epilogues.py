"""What follows products of integers: programs of it are proved, and fusing it keeps the numbers."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import ModuleOp

from ge.dialects.targets.target import Target
from ge.dialects.text.reading import SourceText, parse_module
from ge.lowering.driver.compiler import context, lower
from ge.lowering.pipeline.options import Options
from ge.runtime.check.proof import check_program
from ge.runtime.data.arrays import Array
from ge.runtime.device.session import Session


class Epilogue:
    """The text of @main: an integer matmul, or convolution, and what follows it."""

    def __init__(self, m: int, k: int, n: int, conv: bool = False) -> None:
        self.shape = f"{m}x{n}"
        if conv:
            self.shape = f"1x{n}x{m}x{m}"
            kind, types = "conv", (f"1x{k}x{m}x{m}xi8", f"{n}x{k}x1x1xi8")
        else:
            kind, types = "matmul", (f"{m}x{k}xi8", f"{k}x{n}xi8")
        self.arguments = [f"%x: tensor<{types[0]}>", f"%w: tensor<{types[1]}>"]
        self.columns, self.axis, self.rank = n, 1, 4 if conv else 2
        self.lines: list[str] = []
        self.last, self.element = "", ""
        self.add(f"graph.{kind} %x, %w", "i32", f"tensor<{types[0]}>", f"tensor<{types[1]}>")

    def argument(self, shape: str, element: str) -> tuple[str, str]:
        name, t = f"%a{len(self.arguments)}", f"tensor<{shape}{'x' if shape else ''}{element}>"
        self.arguments.append(f"{name}: {t}")
        return name, t

    @property
    def type(self) -> str:
        return f"tensor<{self.shape}x{self.element}>"

    def add(self, text: str, element: str, *types: str) -> None:
        operands = ", ".join(types or (self.type,))
        self.last, self.element = f"%v{len(self.lines)}", element
        self.lines.append(f"{self.last} = {text} : ({operands}) -> {self.type}")

    def grow(self, kind: str, element: str = "f16", by_column: bool = True) -> None:
        """An op that the types allow, if any."""
        last, t, integer = self.last, self.type, self.element in ("i32", "i8")
        if kind in ("bias", "residual", "rows"):
            shape = {"bias": f"{self.columns}" + "x1" * (self.rank - 2), "residual": self.shape}
            rows = self.shape.split("x")[0]
            operand, its = self.argument(
                shape.get(kind, f"{rows}" + "x1" * (self.rank - 1)), self.element
            )
            self.add(f"graph.add {last}, {operand}", self.element, t, its)
        elif kind == "dequantize" and integer:
            scale, its = self.argument(f"{self.columns}" if by_column else "", element)
            axis = f" axis {self.axis}" if by_column else ""
            self.add(f"graph.dequantize {last}, {scale}{axis}", element, t, its)
        elif kind == "requantize" and integer:
            scale, its = self.argument(f"{self.columns}" if by_column else "", "f32")
            axis = f" axis {self.axis} low 0" if by_column else ""
            self.last, self.element = f"%v{len(self.lines)}", "i8"
            text = f"graph.requantize {last}, {scale} to i8{axis} : ({t}, {its}) -> {self.type}"
            self.lines.append(f"{self.last} = {text}")
        elif kind == "quantize" and not integer:
            scale, its = self.argument("", self.element)
            self.add(f"graph.quantize {last}, {scale} to i8", "i8", t, its)
        elif kind == "cast" and not integer:
            self.add(f"graph.cast {last} to {element}", element, t)
        elif kind == "relu" or (kind == "gelu" and not integer):
            self.add(f"graph.{kind} {last}", self.element, t)

    def module(self, *more: int) -> ModuleOp:
        """The last value is a result, and those of the lines named."""
        values = [line.split(" = ")[0] for line in self.lines]
        types = [line.rpartition(" -> ")[2] for line in self.lines]
        results = sorted({len(self.lines) - 1, *more})
        names, their = (", ".join(x[i] for i in results) for x in (values, types))
        body = "\n".join(f"  {line}" for line in self.lines)
        text = f"func.func @main({', '.join(self.arguments)}) -> ({their}) {{\n{body}\n"
        return parse_module(
            context(), SourceText("t.mlir", f"{text}  func.return {names} : {their}\n}}")
        )


KINDS = (
    *("bias", "dequantize", "relu", "quantize", "requantize", "cast", "gelu", "residual", "rows"),
)
SIZES = st.sampled_from([1, 5, 16, 40, 128, 1000])


@settings(max_examples=settings().max_examples // 4)  # each is a compile
@given(SIZES, SIZES, SIZES, st.booleans(), st.sampled_from(Target.presets()), st.data())
def test_programs_of_random_epilogues_are_proved(
    m: int, k: int, n: int, conv: bool, target: str, data: st.DataObject
) -> None:
    text = Epilogue(min(m, 16) if conv else m, k, n, conv)
    for kind in data.draw(st.lists(st.sampled_from(KINDS), max_size=7)):
        element = data.draw(st.sampled_from(["f16", "f32"]))
        text.grow(kind, element, by_column=data.draw(st.booleans()))
    more = data.draw(st.lists(st.integers(0, len(text.lines) - 1), max_size=2))
    module = text.module(*more)
    lower(module, Options(target=target))
    assert [str(p) for p in check_program(module).problems] == []


def grown(*kinds: str, element: str = "f16", conv: bool = False) -> Epilogue:
    text = Epilogue(16 if conv else 128, 64, 256, conv)
    for kind in kinds:
        text.grow(kind, element)
    return text


EPILOGUES = (
    ("bias", "dequantize", "gelu", "quantize"),
    ("bias", "dequantize", "relu", "quantize"),
    ("dequantize", "residual", "relu", "quantize"),
    ("bias", "requantize"),
)


@pytest.mark.parametrize(
    ("kinds", "conv"),
    [
        pytest.param(kinds, conv, marks=pytest.mark.soak if conv == number % 2 else [])
        for number, kinds in enumerate(EPILOGUES)
        for conv in (False, True)
    ],
)
def test_numbers_stay(conv: bool, kinds: tuple[str, ...]) -> None:
    """Fused launches give the bits of the ops one by one; as requantization, they may round to a
    neighbour."""
    text = grown(*kinds, element="f32", conv=conv)
    rng = np.random.default_rng(0)
    inputs: dict[str, Array] = {}
    for i, argument in enumerate(text.arguments):
        *dims, element = argument.split("tensor<")[1].rstrip(">").split("x")
        shape, dtype = tuple(map(int, dims)), {"i8": np.int8, "i32": np.int32}.get(element)
        if dtype is None:
            inputs[f"arg{i}"] = np.asarray(rng.random(shape) / 64 + 0.01, np.float32)
        else:
            inputs[f"arg{i}"] = rng.integers(-100, 100, shape, dtype)
    results: list[Array] = []
    for fusion in ("off", "conservative", "default"):
        lower(module := text.module(), Options(target="910_merged", fusion=fusion))
        assert not check_program(module).problems
        results.append(next(iter(Session(module).run(inputs).values())))
    expected, exact, other = (r.astype(np.int32) for r in results)
    assert len(np.unique(expected)) > 50
    assert np.array_equal(expected, exact)
    assert np.abs(expected - other).max() <= 1
