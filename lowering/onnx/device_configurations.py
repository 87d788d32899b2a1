"""How a model says itself that its values are cut over devices (since IR 11): as rules of a mesh.

    configuration { name: "c", num_devices: 8 }
    node { ... device_configurations { configuration_id: "c" sharding_spec {
        tensor_name: "x" device: -1 device: -2
        index_to_device_group_map { key: -1 value: 0 value: 1 value: 2 value: 3 } ...
        sharded_dim { axis: 0 simple_sharding { num_shards: 2 } } } } }
is
    d0=2,d1=4 and {"x": [["d0"]]}

ONNX lists devices, not axes. The mesh is the one that was asked for, if it has as many devices;
else its axes are where the parts of all values begin and end, as devices are numbered row-major, or
in the order of the parts that a value has on them (`device_ids`)."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain, pairwise
from math import prod

from onnx import ModelProto, ShardingSpecProto
from xdsl.ir import Operation, SSAValue

from ge.dialects.graph.constant import ConstantOp
from ge.dialects.graph.sharding import StageOp
from ge.dialects.support.mesh import Axis, Mesh, Sharding
from ge.dialects.support.operation import created
from ge.dialects.support.types import int_attribute, is_ranked, shape_of
from ge.dialects.text.values import did_you_mean
from ge.lowering.onnx.values import Value
from ge.transforms.sharding.rules import ShardRules, mesh_line

Warn = Callable[[str], None]

# A dimension -> in how many parts it is cut, and which of these each device has
Parts = Mapping[int, tuple[int, Sequence[int]]]


def stated_rules(
    model: ModelProto, values: Mapping[str, Value], mesh: Mesh | None, warn: Warn
) -> ShardRules | None:
    """The mesh and shardings that a model states, None if it states none that can be used."""
    counts = {c.name: c.num_devices for c in model.configuration}
    _check_names(model, counts, warn)
    wanted = [n for n, count in counts.items() if count == (mesh.count if mesh else count) > 1]
    if len(wanted) > 1:
        listed = " and ".join(f"'{name}'" for name in wanted)
        warn(f"of the device configurations {listed} of the model the first is used")
    if not wanted:
        if mesh and max(counts.values(), default=1) > 1:
            listed = ", ".join(f"'{name}' of {count}" for name, count in counts.items())
            text = f"device configurations of the model ({listed} devices) are not used"
            warn(f"{text}: the mesh {mesh_line(mesh)} has {mesh.count}")
        return None
    count = counts[wanted[0]]
    stated: dict[str, Parts] = {}
    for spec in _specs(model, wanted[0]):
        name, value = spec.tensor_name, values.get(spec.tensor_name)
        if not isinstance(value, SSAValue) or not is_ranked(value):
            warn(f"the model states how '{name}' is cut over devices, which is none of its tensors")
        elif (parts := _parts(spec, count, len(shape_of(value)))) is None:
            warn(f"how the model cuts '{name}' over devices is not understood, and not used")
        elif stated.setdefault(name, parts) != parts:
            warn(f"the model cuts '{name}' over devices in two ways; the first is used")
    mesh = mesh or _mesh(stated.values(), count)
    shardings: dict[str, Sharding] = {}
    for name, parts in stated.items():
        if (sharding := _sharding(parts, mesh)) is None:
            warn(f"how the model cuts '{name}' fits no axes of {mesh_line(mesh)}: not used")
        else:
            shardings[name] = sharding
    return ShardRules(mesh, shardings, "the model") if shardings else None


def enter_stages(model: ModelProto, values: Mapping[str, Value]) -> None:
    """State the stages of a pipeline that nodes have (`pipeline_stage`): what a node reads is read
    in its stage."""
    named = {value for value in values.values() if isinstance(value, SSAValue)}
    for node in model.graph.node:
        stages = [c.pipeline_stage for c in node.device_configurations if c.pipeline_stage]
        for stage in stages[:1]:
            todo, seen = [v for n in node.output if (v := values.get(n))], set[SSAValue]()
            while todo:  # an op of the node is between what it reads and what it gives
                value = todo.pop()
                op = value.owner if isinstance(value, SSAValue) else None
                if not isinstance(op, Operation) or isinstance(op, ConstantOp) or value in seen:
                    continue
                assert isinstance(value, SSAValue)
                seen.add(value)
                for i, read in enumerate(op.operands):
                    if read in named or not isinstance(read.owner, Operation):
                        new = created(
                            StageOp, (read,), [read.type], {"number": int_attribute(stage)}
                        )
                        block = op.parent
                        assert block is not None
                        block.insert_op_before(new, op)
                        op.operands[i] = new.result
                    else:
                        todo.append(read)


def _check_names(model: ModelProto, counts: Mapping[str, int], warn: Warn) -> None:
    """Warn of configurations that cannot be used whatever the mesh is."""
    for name, count in counts.items():
        if count < 1:
            warn(f"the device configuration '{name}' of the model has {count} devices: not used")
    own = chain.from_iterable(node.device_configurations for node in model.graph.node)
    for name in dict.fromkeys(c.configuration_id for c in own if c.sharding_spec):
        if name not in counts:
            near = did_you_mean(name, list(counts))
            text = f"nodes of the model are cut by the device configuration '{name}'"
            warn(f"{text}, which it does not have: not used{near}")


def _specs(model: ModelProto, name: str) -> Iterator[ShardingSpecProto]:
    for node in model.graph.node:
        for configuration in node.device_configurations:
            if configuration.configuration_id == name:
                yield from configuration.sharding_spec


def _parts(spec: ShardingSpecProto, count: int, rank: int) -> Parts | None:
    """Read how a value is cut; None for what has no form here: parts of parts, devices that have
    nothing or several parts."""
    cuts: dict[int, int] = {}
    for dim in spec.sharded_dim:
        axis = dim.axis + rank if dim.axis < 0 else dim.axis
        if len(dim.simple_sharding) != 1 or axis in cuts or not 0 <= axis < rank:
            return None
        cuts[axis] = dim.simple_sharding[0].num_shards
    groups = {entry.key: list(entry.value) for entry in spec.index_to_device_group_map}
    number: dict[int, int] = {}  # of the part that a device has, row-major in the listed dimensions
    for i, device in enumerate(spec.device):
        number.update(dict.fromkeys(groups.get(device, [device]), i))
    if sorted(number) != list(range(count)) or len(spec.device) != prod(cuts.values()):
        return None
    parts: dict[int, tuple[int, Sequence[int]]] = {}
    rest = prod(cuts.values())
    for axis, shards in cuts.items():
        rest //= shards
        parts[axis] = shards, [number[device] // rest % shards for device in range(count)]
    return parts


def _mesh(stated: Collection[Parts], count: int) -> Mesh:
    """The mesh whose axes are where the parts of values begin and end: that in which most values
    are cut along axes. Other orders of devices are tried where some value is not, row-major."""

    def fitting(mesh: Mesh) -> int:
        return sum(_sharding(parts, mesh) is not None for parts in stated)

    mesh = _mesh_in_order(stated, count, ())
    if fitting(mesh) == len(stated):
        return mesh
    orders = dict.fromkeys(_order(parts, count) for parts in stated)
    return max(mesh, *(_mesh_in_order(stated, count, own) for own in orders), key=fitting)


def _order(parts: Parts, count: int) -> tuple[int, ...]:
    """Return the devices in the order of the parts that they have of a value."""
    numbers = [own for _, own in parts.values()]
    return tuple(sorted(range(count), key=lambda device: [own[device] for own in numbers]))


def _mesh_in_order(stated: Iterable[Parts], count: int, order: tuple[int, ...]) -> Mesh:
    line = Mesh((("d0", count),), order)
    ends = {1, count}
    for parts in stated:
        for axis in (a for own in parts.values() for a in _axes(*own, line) or ()):
            ends |= {axis.pre, axis.pre * (axis.size or count)}
    steps = [b // a if b % a == 0 else 0 for a, b in pairwise(sorted(ends))]
    axes = tuple((f"d{i}", n) for i, n in enumerate(steps))
    return Mesh(axes, order) if all(steps) else line


def _sharding(parts: Parts, mesh: Mesh) -> Sharding | None:
    dims: list[tuple[Axis, ...]] = [()] * (max(parts, default=-1) + 1)
    for axis, own in parts.items():
        if (axes := _axes(*own, mesh)) is None:
            return None
        dims[axis] = axes
    return Sharding(tuple(dims))


def _axes(parts: int, own: Sequence[int], mesh: Mesh) -> tuple[Axis, ...] | None:
    """The axes and sub-axes, from major to minor, along which each device has this one of the
    parts; None if there are none. The minor digit of the number of a part is found first."""
    found: list[Axis] = []
    while parts > 1:
        for digit in _digits(mesh):
            places = [mesh.digit(digit, device) for device in range(mesh.count)]
            if parts % digit.size == 0 and [n % digit.size for n in own] == places:
                break
        else:
            return None
        if found and found[0].name == digit.name and digit.pre * digit.size == found[0].pre:
            found[0] = digit._replace(size=digit.size * found[0].size)
        else:
            found.insert(0, digit)
        own, parts = [n // digit.size for n in own], parts // digit.size
    return tuple(Axis(a.name) if mesh.is_whole(a) else a for a in found)


def _digits(mesh: Mesh) -> Iterator[Axis]:
    """The digits of prime size of all axes."""
    for name, size in mesh.axes:
        divisors = [n for n in range(1, size + 1) if size % n == 0]
        for pre in divisors:
            for prime in divisors[1:]:
                if all(prime % n for n in divisors[1:] if n < prime) and size % (pre * prime) == 0:
                    yield Axis(name, pre, prime)
