"""Random programs on buffers, as text, without streams.

sys.path.insert(0, str(Path(__file__).parent))
from task_programs import programs

@given(programs(control=True, in_place=True))
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from hypothesis import strategies as st


def kernel(name: str, engine: str, ins: Sequence[int], body: Sequence[str], out: int) -> str:
    args = ", ".join(f"%{i}: {tensor(size)}" for i, size in enumerate(ins))
    lines = [*body, f"npu_task.return %y : {tensor(out)}"]
    return "\n".join((f"npu_task.kernel @{name} on {engine} {{", f"^bb0({args}):", *lines, "}\n"))


def tensor(size: int) -> str:
    return f"tensor<{size}xf32>"


def sum_kernel(name: str, engine: str, ins: Sequence[int], out: int) -> str:
    """The sum of all elements, everywhere: a result that is written over an operand is a fault."""
    outside, inside = (", ".join(f"%{c}{i}" for i in range(len(ins))) for c in ("", "a"))
    args = ", ".join(f"%a{i}: {tensor(size)}" for i, size in enumerate(ins))
    types, whole, result = ", ".join(map(tensor, ins)), tensor(sum(ins)), tensor(out)
    body = (
        f"%y = fused_op.region({outside}) : ({types}) -> {result} {{",
        f"^bb0({args}):",
        f"%b = graph.concat {inside} axis 0 : ({types}) -> {whole}",
        f"%c = graph.reduce sum %b axes [0] : ({whole}) -> {tensor(1)}",
        f"%d = graph.broadcast_to %c shape [{out}] : ({tensor(1)}) -> {result}",
        f"fused_op.yield %d : {result}",
        "}",
    )
    return kernel(name, engine, ins, body, out)


def neg_kernel(size: int) -> str:
    """One that may work in place."""
    t = tensor(size)
    return kernel(f"neg{size}", "vector", [size], [f"%y = graph.neg %0 : ({t}) -> {t}"], size)


def memref(size: int, space: str = "hbm") -> str:
    return f'memref<{size}xf32, "{space}">'


Part = tuple[str, int, str]
"""A buffer, or part of one: its name, elements and type."""

MOST_OPS = (8, 4, 3)
"""Ops in a block, by depth, of a program with control flow."""


@dataclass
class Writer:
    """Writes a random program on buffers; each buffer is written once, then read."""

    draw: st.DrawFn
    lines: list[str]
    views: bool
    in_place: bool = False
    """Whether there are kernels that may work in place, and buffers written by halves."""
    count: int = 0
    kernels: dict[str, str] = field(default_factory=dict[str, str])
    """Texts by name."""

    def task(self, known: list[tuple[str, int]]) -> None:
        """A launch or a copy that writes a new buffer."""
        kinds = ["cube", "vector", "host", "in", "out"]
        more = ["neg", "neg", "neg", "halves"] if self.in_place else []
        engine = self.draw(st.sampled_from([*kinds, *more]))
        if engine in more:
            source = self.draw(st.sampled_from(known))
            (self.neg if engine == "neg" else self.halves)(source, known)
            return
        size = self.draw(st.sampled_from([1, 100, 128, 300]))
        reads = self.draw(st.lists(st.sampled_from(known), min_size=1, max_size=3, unique=True))
        name = f"%b{self.count}"
        self.count += 1
        if engine == "out":
            source, length = reads[0]
            t = memref(length, "host")
            self.lines.append(f"{name} = memref.alloc() : {t}")
            self.lines.append(f"npu_task.copy {source} to {name} : {memref(length)} to {t}")
            return
        self.lines.append(f"{name} = memref.alloc() : {memref(size)}")
        if engine == "in":
            self.lines.append(f"npu_task.copy %x{size} to {name} : "
                              f"{memref(size, 'host')} to {memref(size)}")  # fmt: skip
        else:
            ins = [self.view(v) for v in reads]
            self.sum(engine, ins, (name, size, memref(size)))
        known.append((name, size))

    def sum(self, engine: str, ins: Sequence[Part], out: Part) -> None:
        """A launch that sums; the kernel is named for the sizes of its operands and its result."""
        names, sizes, types = zip(*ins, strict=True)
        kernel = "_".join((engine, *map(str, sizes), "to", str(out[1])))
        self.kernels[kernel] = sum_kernel(kernel, engine, sizes, out[1])
        self.launch(kernel, f"{', '.join(names)} : {', '.join(types)}", out)

    def launch(self, kernel: str, ins: str, out: Part) -> None:
        name, _, t = out
        self.lines.append(f"npu_task.launch @{kernel} ins({ins}) outs({name} : {t})")

    def neg(self, source: tuple[str, int], known: list[tuple[str, int]]) -> None:
        """A launch whose result may be written over its operand."""
        size, result = source[1], self.alloc(source[1])
        t = memref(size)
        self.kernels[f"neg{size}"] = neg_kernel(size)
        self.launch(f"neg{size}", f"{source[0]} : {t}", (result, size, t))
        known.append((result, size))

    def halves(self, source: tuple[str, int], known: list[tuple[str, int]]) -> None:
        """Two launches that write the halves of a new buffer."""
        result = self.alloc(128)
        for offset in (0, 64):
            self.sum("vector", [(*source, memref(source[1]))], self.part(result, 128, offset))
        known.append((result, 128))

    def alloc(self, size: int) -> str:
        name = f"%b{self.count}"
        self.count += 1
        self.lines.append(f"{name} = memref.alloc() : {memref(size)}")
        return name

    def view(self, value: tuple[str, int]) -> Part:
        """A buffer as it is, or its second half."""
        name, size = value
        if size % 2 or not self.views or not self.draw(st.booleans()):
            return name, size, memref(size)
        return self.part(name, size, size // 2)

    def part(self, name: str, size: int, offset: int) -> Part:
        """Half of a buffer, from an element on."""
        half, part = size // 2, f"%b{self.count}"
        self.count += 1
        t = f'memref<{half}xf32, strided<[1], offset: {offset}>, "hbm">'
        self.lines.append(
            f"{part} = memref.reinterpret_cast {name} to offset: [{offset}], sizes: [{half}], "
            f"strides: [1] : {memref(size)} to {t}"
        )
        return part, half, t

    def block(self, known: list[tuple[str, int]], depth: int, control: bool) -> None:
        for _ in range(self.draw(st.integers(1, MOST_OPS[depth] if control else 20))):
            kind = self.draw(st.integers(0, 7)) if control and depth < 2 else 7
            if kind == 0:
                self.loop(known, depth)
            elif kind == 1:
                self.branch(known, depth)
            else:
                self.task(known)

    def loop(self, known: list[tuple[str, int]], depth: int) -> None:
        """A loop whose carried buffer starts with a copy of a known one."""
        (source, size), name = self.draw(st.sampled_from(known)), f"%b{self.count}"
        self.count += 1
        self.lines.append(f"{name} = memref.alloc() : {memref(size)}")
        self.lines.append(f"npu_task.copy {source} to {name} : {memref(size)} to {memref(size)}")
        i, go, arg = (f"%b{self.count + k}" for k in range(3))
        self.count += 3
        self.lines.append(
            f'npu_task.loop trip %n : memref<i64, "hbm"> '
            f"carried({name} : {memref(size)}) order [1] stacked [] {{\n"
            f'^bb0({i}: memref<i64, "hbm">, {go}: memref<i1, "hbm">, '
            f"{arg}: {memref(size)}):"
        )
        inside = [*known, (arg, size)]
        self.block(inside, depth + 1, control=True)
        last = next(n for n, s in reversed(inside) if s == size)
        self.lines.append(f"npu_task.yield {go}, {last} : "
                          f'memref<i1, "hbm">, {memref(size)}\n}}')  # fmt: skip
        known.append((name, size))

    def branch(self, known: list[tuple[str, int]], depth: int) -> None:
        size, name = known[0][1], f"%b{self.count}"
        self.count += 1
        self.lines.append(f"{name} = memref.alloc() : {memref(size)}")
        self.lines.append(
            f'npu_task.if %c : memref<i1, "hbm"> outs({name} : {memref(size)}) order [1] {{'
        )
        for end in ("} else {", "}"):
            inside = list(known)
            self.block(inside, depth + 1, control=True)
            last = next(n for n, s in reversed(inside) if s == size)
            self.lines.append(f"npu_task.yield {last} : {memref(size)}\n{end}")
        known.append((name, size))


@st.composite
def programs(
    draw: st.DrawFn, control: bool = False, views: bool = True, in_place: bool = False
) -> str:
    """The text of a module on buffers, without streams."""
    writer = Writer(draw, [], views, in_place)
    sizes = (1, 100, 128, 300)
    args = [f"%x{s}: {memref(s, 'host')}" for s in sizes]
    args += [f'%{n}: memref<{t}, "hbm">' for n, t in (("c", "i1"), ("n", "i64"))]
    writer.lines.append(f"%first = memref.alloc() : {memref(128)}")
    writer.lines.append(f"npu_task.copy %x128 to %first : {memref(128, 'host')} to {memref(128)}")
    writer.block([("%first", 128)], 0, control)
    body = "\n".join(writer.lines)
    kernels = "".join(writer.kernels.values())
    return f"{kernels}func.func @main({', '.join(args)}) {{\n{body}\nfunc.return\n}}"
