"""What a program is compared with: another program run by ge, a model run by onnxruntime or
PyTorch, or outputs in a file."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, cast

from onnx import ModelProto, ValueInfoProto
from xdsl.ir import Operation

from ge.dialects.support.distribution import lacking
from ge.dialects.support.errors import GeError
from ge.lowering.comparing.nodes import Nodes, Origins, leaves, written
from ge.lowering.driver.program import Program
from ge.lowering.onnx.model import read_model
from ge.lowering.text.values import did_you_mean
from ge.runtime.data.arrays import Array
from ge.runtime.data.npz import read_npz
from ge.runtime.device.ports import Port
from ge.runtime.device.session import Session

Arrays = Mapping[str, Array]

ONNXRUNTIME, TORCH = "onnxruntime", "torch"
EXTRAS = {ONNXRUNTIME: "peers", TORCH: "torch"}  # of the distribution, which installs it
KINDS = f"{ONNXRUNTIME}, {TORCH}, a .onnx model, a .mlir module, or a .npz file"


@dataclass
class Ran:
    """Outputs by name, and the results of the nodes that were asked for."""

    outputs: dict[str, Array]
    values: dict[str, list[Array]] = field(default_factory=dict[str, list[Array]])


class Peer(ABC):
    """What gives numbers to be compared with. `nodes`: those whose results it can give."""

    title: str
    nodes: Nodes | None = None
    why_not: str = ""  # it gives no results of nodes

    @abstractmethod
    def run(self, inputs: Arrays, wanted: Collection[str] = ()) -> Ran:
        """Its outputs, and the results of the nodes wanted. Inputs that it does not have are left
        out. Raises GeError where it does not take them."""


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


class OtherProgram(Peer):
    """A module of any level, or a model at the graph level, run by ge."""

    def __init__(self, program: Program, title: str, session: Session) -> None:
        self.program, self.title, self.session = program, title, session
        self.nodes, self.origins = Nodes.of_module(program.module), Origins(program.module)

    def run(self, inputs: Arrays, wanted: Collection[str] = ()) -> Ran:
        nodes, values = self.nodes, dict[str, list[Array]]()
        assert nodes is not None

        def keep(op: Operation, arrays: Sequence[Array]) -> None:
            for value, names, array in zip(written(op), self.origins.of(op), arrays, strict=True):
                name = nodes.last(names)
                if name is not None and name in wanted and leaves(op, value, name, nodes):
                    values.setdefault(name, []).append(array.copy())

        given = chosen(inputs, self.session.input_names, self.title)
        return Ran(self.session.run(given, watch=keep if wanted else None), values)


class Onnxruntime(Peer):
    """An ONNX model in onnxruntime, which computes its nodes as they stand: its optimizations are
    off."""

    def __init__(self, path: str) -> None:
        self.ort: Any = installed(ONNXRUNTIME)
        self.title, self.path = f"onnxruntime {self.ort.__version__}", path
        self.model: ModelProto = read_model(path)
        self.nodes = Nodes.of_onnx(self.model)

    def run(self, inputs: Arrays, wanted: Collection[str] = ()) -> Ran:
        try:
            return self._run(inputs, wanted)
        except GeError:
            raise
        except Exception as e:  # of many classes
            reason = " ".join(str(e).split())[:400]
            hint = "compare with a .mlir, .onnx or .npz file, which onnxruntime has no part in"
            raise GeError(f"onnxruntime refuses the model: {reason}", self.path, hint) from None

    def _run(self, inputs: Arrays, wanted: Collection[str]) -> Ran:
        assert self.nodes is not None
        graph, results = self.model.graph, self.nodes.results
        count = len(graph.output)
        own = [o.name for o in graph.output]
        more = {v: None for name in wanted for v in results[name] if v and v not in own}
        graph.output.extend(ValueInfoProto(name=v) for v in more)
        try:
            options = self.ort.SessionOptions()
            options.graph_optimization_level = self.ort.GraphOptimizationLevel.ORT_DISABLE_ALL
            options.log_severity_level = 4
            folder = str(Path(self.path).resolve().parent)
            options.add_session_config_entry(
                "session.model_external_initializers_file_folder_path", folder
            )
            session = self.ort.InferenceSession(
                self.model.SerializeToString(), options, providers=["CPUExecutionProvider"]
            )
        finally:
            del graph.output[count:]
        given = chosen(inputs, [i.name for i in session.get_inputs()], self.title)
        arrays = dict(zip([*own, *more], session.run([*own, *more], given), strict=True))
        tensors = {v: a for v, a in arrays.items() if hasattr(a, "dtype")}  # and no sequences
        values = {n: [tensors[v] for v in results[n] if v in tensors] for n in wanted}
        return Ran(flat({name: arrays[name] for name in own}), values)


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

    def run(self, inputs: Arrays, wanted: Collection[str] = ()) -> Ran:
        given = chosen(inputs, self.inputs, self.title)
        try:
            with self.torch.no_grad():
                tensors = [self.torch.from_numpy(a.copy()) for a in given.values()]
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

    def run(self, inputs: Arrays, wanted: Collection[str] = ()) -> Ran:
        return Ran(self.arrays)


def no_such_peer(text: str) -> GeError:
    guess = did_you_mean(text, (ONNXRUNTIME, TORCH))
    return GeError(f"--compare has no '{text}'{guess}", hint=f"it takes {KINDS}")
