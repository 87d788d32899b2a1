"""Peers that a program is compared with: another program run by ge, a model run by onnxruntime or
PyTorch, or outputs in a file."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, cast

from onnx import ModelProto, ValueInfoProto, helper, numpy_helper
from xdsl.ir import Operation

from ge.dialects.support.distribution import lacking
from ge.dialects.support.errors import GeError
from ge.dialects.text.values import did_you_mean
from ge.lowering.driver.program import Program
from ge.lowering.onnx.model import Tensors, read_model, reads
from ge.runtime.data.arrays import Array
from ge.runtime.data.npz import read_npz
from ge.runtime.data.weights import Payload
from ge.runtime.device.ports import Port
from ge.runtime.device.session import Session
from ge.tools.comparing.nodes import Given, Move, Nodes, Origins, Place, leaves, written

Arrays = Mapping[str, Array]

ONNXRUNTIME, TORCH = "onnxruntime", "torch"
EXTRAS = {ONNXRUNTIME: "peers", TORCH: "torch"}  # of the distribution, which installs it
KINDS = f"{ONNXRUNTIME}, {TORCH}, a .onnx model, a .mlir module, or a .npz file"


@dataclass
class Ran:
    """Outputs by name, and the results of the nodes that were asked for."""

    outputs: dict[str, Array]
    values: dict[str, list[Array]] = field(default_factory=dict[str, list[Array]])


@dataclass(frozen=True, slots=True)
class Asked:
    """A request for results of a run beside its outputs: those of the nodes `wanted`. What follows
    a result of `given` reads that array instead; `move` moves matrices and filters that are
    weights."""

    wanted: Collection[str] = ()
    given: Given = field(default_factory=dict[Place, Array])
    move: Move | None = None


OUTPUTS = Asked()


class Peer(ABC):
    """A source of numbers to compare with. `nodes`: those whose results it can give."""

    title: str
    nodes: Nodes | None = None
    why_not: str = ""  # it gives no results of nodes

    @abstractmethod
    def run(self, inputs: Arrays, asked: Asked = OUTPUTS) -> Ran:
        """Return its outputs, and what is asked for beside them. Inputs that it does not have are
        left out. Raises GeError if it does not take them."""


def installed(module: str) -> Any:
    """The module of a peer. Raises GeError that says how to install it."""
    try:
        return import_module(module)
    except ImportError as e:
        absent = isinstance(e, ModuleNotFoundError) and e.name == module
        what = "is not installed" if absent else f"cannot be imported: {e}"
        raise lacking(f"{module} {what}", EXTRAS[module]) from None


def chosen(given: Arrays, names: Sequence[str], title: str) -> dict[str, Array]:
    """The inputs of these names. Raises GeError for one that is not given."""
    if missing := [name for name in names if name not in given]:
        known = ", ".join(f"'{n}'" for n in given) or "none"
        what = f"{title} has an input '{missing[0]}', which the program does not have"
        raise GeError(what, hint=f"inputs of the program: {known}")
    return {name: given[name] for name in names}


@dataclass
class MovedWeights:
    """Weights of which matrices and filters are moved."""

    payload: Payload
    move: Move

    def get(self, key: str, /) -> Array | None:
        array = self.payload.get(key)
        return array if array is None or array.ndim < 2 else self.move(array)


class OtherProgram(Peer):
    """A module of any level, or a model at the graph level, run by ge: in a session that is made
    anew for each run, whose state it changes."""

    def __init__(
        self, program: Program, title: str, session_of: Callable[[Payload], Session]
    ) -> None:
        self.program, self.title, self.session_of = program, title, session_of
        self.nodes, self.origins = Nodes.of_module(program.module), Origins(program.module)

    def run(self, inputs: Arrays, asked: Asked = OUTPUTS) -> Ran:
        nodes, values, given = self.nodes, dict[str, list[Array]](), asked.given
        seen = {*asked.wanted, *(name for name, _ in given)}
        assert nodes is not None

        def keep(op: Operation, arrays: Sequence[Array]) -> None:
            for value, names, array in zip(written(op), self.origins.of(op), arrays, strict=True):
                name = nodes.last(names)
                if name is not None and name in seen and leaves(op, value, name, nodes):
                    known = values.setdefault(name, [])
                    known.append(array.copy())
                    instead = given.get((name, len(known) - 1))
                    if instead is not None and array.flags.writeable:
                        array[...] = instead

        weights = self.program.payload
        moved = weights if asked.move is None else MovedWeights(weights, asked.move)
        session = self.session_of(moved)
        feeds = chosen(inputs, session.input_names, self.title)
        return Ran(session.run(feeds, watch=keep if seen else None), values)


class Onnxruntime(Peer):
    """An ONNX model in onnxruntime, which computes its nodes as they stand: its optimizations are
    off."""

    def __init__(self, path: str) -> None:
        self.ort: Any = installed(ONNXRUNTIME)
        self.title, self.path = f"onnxruntime {self.ort.__version__}", path
        self.model: ModelProto = read_model(path)
        self.nodes = Nodes.of_onnx(self.model)

    def run(self, inputs: Arrays, asked: Asked = OUTPUTS) -> Ran:
        try:
            return self._run(inputs, asked)
        except GeError:
            raise
        except Exception as e:  # of many classes
            reason = " ".join(str(e).split())[:400]
            hint = "compare with a .mlir, .onnx or .npz file, which onnxruntime has no part in"
            raise GeError(f"onnxruntime refuses the model: {reason}", self.path, hint) from None

    def _run(self, inputs: Arrays, asked: Asked) -> Ran:
        assert self.nodes is not None
        results, model, wanted = self.nodes.results, self.model, asked.wanted
        instead = {results[name][i]: array for (name, i), array in asked.given.items()}
        called = {v: own_name(v, instead) for name in wanted for v in results[name] if v}
        if instead or asked.move is not None:
            model = part_of(model, called, instead)
        if asked.move is not None:
            self._move_weights(model, asked.move)
        graph = model.graph
        count, own = len(graph.output), [o.name for o in graph.output]
        more = [v for v in called.values() if v not in own]
        graph.output.extend(ValueInfoProto(name=v) for v in more)
        try:
            session = self._session(model)
        finally:
            del graph.output[count:]
        names = [i.name for i in session.get_inputs()]
        feeds = {name: instead[name] for name in names if name in instead}
        feeds |= chosen(inputs, [name for name in names if name not in instead], self.title)
        arrays = dict(zip([*own, *more], session.run([*own, *more], feeds), strict=True))
        tensors = {v: a for v, a in arrays.items() if hasattr(a, "dtype")}  # and no sequences
        values = {n: [tensors[c] for v in results[n] if (c := called.get(v)) in tensors]
                  for n in wanted}  # fmt: skip
        return Ran(flat({name: arrays[name] for name in own}), values)

    def _move_weights(self, model: ModelProto, move: Move) -> None:
        read = Tensors(Path(self.path).parent)
        for weight in model.graph.initializer:
            array = read.array(weight) if len(weight.dims) > 1 else None
            if array is not None and array.dtype.kind == "f":
                weight.CopyFrom(numpy_helper.from_array(move(array), weight.name))

    def _session(self, model: ModelProto) -> Any:
        options = self.ort.SessionOptions()
        options.graph_optimization_level = self.ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.log_severity_level = 4
        # its threads would wait busily while ge computes
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        folder = str(Path(self.path).resolve().parent)
        options.add_session_config_entry(
            "session.model_external_initializers_file_folder_path", folder
        )
        return self.ort.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )


def own_name(value: str, instead: Collection[str]) -> str:
    """Return the name for the result of a node that nothing reads."""
    return f"{value} of its own" if value in instead else value


def part_of(model: ModelProto, wanted: Iterable[str], instead: Mapping[str, Array]) -> ModelProto:
    """The nodes that values are computed from, where others are inputs: nothing reads what the
    nodes compute in their place. The graph has no outputs."""
    whole, stack, used, numbers = model.graph, [*wanted], set[str](), set[int]()
    makers = {value: i for i, node in enumerate(whole.node) for value in node.output if value}
    while stack:
        number = makers.get(stack.pop())
        if number is not None and number not in numbers:
            numbers.add(number)
            read = {*reads(whole.node[number])}
            used |= read
            stack += read - {*instead}
    part = ModelProto(
        ir_version=model.ir_version, opset_import=model.opset_import, functions=model.functions
    )
    graph = part.graph
    graph.name = whole.name
    graph.node.extend(whole.node[i] for i in sorted(numbers))
    graph.initializer.extend(t for t in whole.initializer if t.name in used)
    graph.sparse_initializer.extend(t for t in whole.sparse_initializer if t.values.name in used)
    graph.input.extend(i for i in whole.input if i.name in used)
    for node in graph.node:
        for i, value in enumerate(node.output):
            node.output[i] = own_name(value, instead)
    for value in used.intersection(instead):
        array = instead[value]
        kind = helper.np_dtype_to_tensor_dtype(array.dtype)
        graph.input.append(helper.make_tensor_value_info(value, kind, array.shape))
    return part


def flat(outputs: Mapping[str, Any]) -> dict[str, Array]:
    """Outputs by the names that ge gives them: each tensor of a sequence has its number."""
    found: dict[str, Array] = {}
    for name, value in outputs.items():
        if isinstance(value, list):
            found |= {f"{name}.{i}": a for i, a in enumerate(cast(list[Array], value))}
        else:
            found[name] = value
    return found


class Torch(Peer):
    """A program that torch.export.save wrote (.pt2), in PyTorch: inputs and outputs by order."""

    why_not = "PyTorch gives outputs alone; onnxruntime gives those of each node"

    def __init__(self, path: str, inputs: Sequence[Port], outputs: Sequence[Port]) -> None:
        self.torch: Any = installed(TORCH)
        self.title, self.path = f"torch {self.torch.__version__}", path
        self.inputs, self.outputs = [p.name for p in inputs], [p.name for p in outputs]
        try:
            self.module: Any = self.torch.export.load(path).module()
        except Exception as e:
            hint = "torch.export.save(torch.export.export(model, inputs), FILE) writes one"
            reason = " ".join(str(e).split())[:400]
            raise GeError(f"torch cannot load the program: {reason}", path, hint) from None

    def run(self, inputs: Arrays, asked: Asked = OUTPUTS) -> Ran:
        feeds = chosen(inputs, self.inputs, self.title)
        try:
            with self.torch.no_grad():
                tensors = [self.torch.from_numpy(a.copy()) for a in feeds.values()]
                result = self.module(*tensors)
        except Exception as e:
            reason = " ".join(str(e).split())[:400]
            raise GeError(f"torch cannot run the program: {reason}", self.path) from None
        leaves = self.torch.utils._pytree.tree_leaves(result)
        arrays = [t.detach().numpy() for t in leaves if isinstance(t, self.torch.Tensor)]
        if len(arrays) != len(self.outputs):
            what = f"torch gives {len(arrays)} outputs, the program has {len(self.outputs)}"
            raise GeError(what, self.path)
        return Ran(dict(zip(self.outputs, arrays, strict=True)))


class File(Peer):
    """Outputs in a .npz file, by name or as `out:NAME`."""

    why_not = "a .npz file has outputs alone"

    def __init__(self, path: str, outputs: Sequence[Port]) -> None:
        self.title, names = Path(path).name, [p.name for p in outputs]
        arrays = read_npz(path, [*names, *(f"out:{n}" for n in names)])
        self.arrays = {n: arrays[k] for n in names for k in (n, f"out:{n}") if k in arrays}
        if not self.arrays:
            present = ", ".join(f"'{n}'" for n in arrays) or "no arrays"
            expected = ", ".join(map(str, outputs)) or "none"
            hint = f"outputs of the program: {expected}; the file has {present}"
            raise GeError("no output of the program is in the file", path, hint)

    def run(self, inputs: Arrays, asked: Asked = OUTPUTS) -> Ran:
        return Ran(self.arrays)


def no_such_peer(text: str) -> GeError:
    guess = did_you_mean(text, (ONNXRUNTIME, TORCH))
    return GeError(f"--compare has no '{text}'{guess}", hint=f"it takes {KINDS}")
