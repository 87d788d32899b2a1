"""`ge-run --compare`: the numbers of a program beside those of another one."""

import argparse
import re
from typing import TYPE_CHECKING

from ge.dialects.text.values import parse_dims
from ge.tools.cli.arguments import argument
from ge.tools.cli.command_line import ArgumentParser

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ge.lowering.driver.program import Program
    from ge.lowering.pipeline.options import Options
    from ge.runtime.data.accuracy import Tolerance
    from ge.runtime.data.arrays import Array
    from ge.runtime.data.weights import Payload
    from ge.tools.comparing.peers import Peer
    from ge.tools.comparing.versus import Versus


def add_compare_arguments(parser: ArgumentParser) -> None:
    """Add `--compare`, and what belongs to it."""
    add = parser.section("numbers beside those of another program")
    add("--compare", metavar="PEER", help="compare the outputs with those that PEER gives for the "
        "same inputs: onnxruntime (of the model IN, or --model), torch (of a program of "
        "torch.export, --model), a .onnx model at the graph level, a .mlir module of any level, or "
        "outputs in a .npz file. Exit status 1 where one is beyond the tolerance")  # fmt: skip
    add("--compare-layers", action="store_true", help="compare the results of all nodes of the "
        "model that both programs have, too: which of them are wrong by themselves, on the same "
        "operands, whatever the nodes before them have made of these")  # fmt: skip
    add("--tolerance", type=argument(tolerance), metavar="T", help="what outputs have to keep: the "
        "largest error as part of the largest magnitude (1e-3), snr>=30 dB or cos>=0.999 (default: "
        "1e-4 in f32, 0.02 in f16, 0.12 in bf16, 40 dB between quantized programs, 20 dB between a "
        "quantized one and floats; integers are equal)")  # fmt: skip


def tolerance(text: str) -> "Tolerance":
    """Raises ValueError, which says what is expected."""
    from ge.runtime.data.accuracy import Tolerance
    from ge.transforms.quantization.accuracy import Accuracy

    if re.match(r"\s*[a-z]", text, re.I):
        bound = Accuracy.parsed(text)
        return Tolerance(**{bound.metric: bound.least}, step=1)
    try:
        if (share := float(text)) >= 0:
            return Tolerance(share=share)
    except ValueError:
        pass
    raise ValueError("a number such as 1e-3, or a bound such as snr>=30 or cos>=0.999")


def check_compare_flags(args: argparse.Namespace) -> None:
    """Raise GeError for flags that have nothing to do."""
    from ge.dialects.support.errors import GeError

    for flag, value in (
        ("--compare-layers", args.compare_layers), ("--tolerance", args.tolerance),
    ):  # fmt: skip
        if value and not args.compare:
            raise GeError(f"{flag} is of --compare", hint="add --compare onnxruntime")


def compared_with(
    args: argparse.Namespace,
    loaded: "Program",
    options: "Options",
    inputs: "Mapping[str, Array]",
) -> "Versus | None":
    """What compares a program with the peer that is asked for; None where none is. Raises GeError
    for a peer that is not there."""
    if not args.compare:
        return None
    from ge.tools.comparing.versus import Versus

    peer = peer_of(args, loaded, options, inputs)
    quantized = bool(options.quantize)
    return Versus(loaded.module, peer, args.compare_layers, args.tolerance, quantized)


def peer_of(
    args: argparse.Namespace,
    loaded: "Program",
    options: "Options",
    inputs: "Mapping[str, Array]",
) -> "Peer":
    from ge.dialects.support.errors import GeError
    from ge.runtime.device.ports import caller_ports, output_ports
    from ge.runtime.device.session import main_of
    from ge.tools.comparing import peers

    name, main = args.compare, main_of(loaded.module)
    model = args.model or args.input
    if name == peers.ONNXRUNTIME:
        if not model.endswith(".onnx"):
            hint = "give the model that it was compiled from: --model M.onnx"
            raise GeError("onnxruntime runs .onnx models alone", model, hint)
        return peers.Onnxruntime(model)
    if name == peers.TORCH:
        if not model.endswith(".pt2"):
            hint = "give a program that torch.export.save wrote: --model M.pt2"
            raise GeError("torch runs programs of torch.export alone", model, hint)
        return peers.Torch(model, caller_ports(main), output_ports(main))
    if name.endswith(".npz"):
        return peers.File(name, output_ports(main))
    if name.endswith((".onnx", ".mlir")):
        return other_program(args, options, inputs)
    raise peers.no_such_peer(name)


def other_program(
    args: argparse.Namespace, options: "Options", inputs: "Mapping[str, Array]"
) -> "Peer":
    """Another program, at the sizes of the inputs, with the weights that it has."""
    from ge.lowering.driver.binding import is_open
    from ge.lowering.driver.compiler import load
    from ge.lowering.onnx.model import read_model
    from ge.runtime.data.weights import Fallback, RandomPayload
    from ge.runtime.device.session import Session
    from ge.tools.comparing.peers import OtherProgram

    path, shapes = args.compare, {name: a.shape for name, a in inputs.items()}
    if path.endswith(".onnx"):
        known = {i.name for i in read_model(path).graph.input}
        fixed = {name: s for name, s in shapes.items() if name in known}
        program = load(path, fixed, parse_dims(options.dim), options.plugins)
    else:
        program = load(path, plugins=options.plugins)
        if is_open(program.module) and program.bind is not None:
            program = program.bind({}, shapes)
    if args.random_weights:
        program.payload = Fallback(program.payload, RandomPayload(program.module, args.seed))

    def session_of(payload: "Payload") -> Session:
        session = Session(program.module, payload, seed=args.seed)
        if args.load_state and session.state.names:
            session.state.load(args.load_state)
        return session

    title = f"{path} ({'ge, ' if path.endswith('.onnx') else ''}{level_name(program)} level)"
    return OtherProgram(program, title, session_of)


def level_name(program: "Program") -> str:
    from ge.lowering.levels.level import level_of

    return str(level_of(program.module))
