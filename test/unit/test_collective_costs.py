"""Times of collectives by algorithm, levels of a cluster on which a group lies, and what a cluster
cannot be."""

import tomllib
from dataclasses import replace
from typing import Any

import pytest

from ge.dialects.graph.collectives import AllToAllOp, ExchangeOp
from ge.dialects.graph.sharding import mesh_of
from ge.dialects.support.errors import GeError
from ge.dialects.support.mesh import Axis, Mesh
from ge.dialects.targets.cluster import Cluster, Level
from ge.dialects.targets.target import Target, toml_text
from ge.dialects.text.reading import SourceText, parse_module
from ge.lowering.driver.compiler import context
from ge.lowering.pipeline.options import Options
from ge.runtime.library.costs.collectives import cheapest, collective_us, reduction_us, times
from ge.transforms.sharding.rates import TimedRates
from ge.transforms.sharding.resharding import Step

TARGET = Target.load("910b2")
FAST, SLOW = (
    Level("server", 8, "mesh", link_gbs=20.0, latency_us=1.0),
    Level("network", 128, "switch", link_gbs=10.0, latency_us=2.0),
)
PLAIN = Cluster((FAST, SLOW))
B, PORT = 20e3, 10e3  # bytes a microsecond


def gathered(spread: tuple[int, ...], n: float, cluster: Cluster = PLAIN) -> dict[str, float]:
    return reduction_us("all_gather", cluster, spread, n, TARGET)


def test_formulas_in_a_server() -> None:
    """Those of HCCL's documents."""
    n, p = 1e6, 8
    found = gathered((p, 1), n)
    assert found["mesh"] == pytest.approx(1 + n / p / B)
    assert found["ring"] == pytest.approx((p - 1) * (1 + n / p / B))
    for name in ("halving_doubling", "nhr"):
        assert found[name] == pytest.approx(3 * 1 + (p - 1) / p * n / B)
    assert "two_level" not in found


def test_any_number_of_devices() -> None:
    n, p = 1e6, 6
    found = gathered((p, 1), n)
    assert "halving_doubling" not in found
    assert found["nhr"] == pytest.approx(3 * 1 + (p - 1) / p * n / B)


def test_a_port_sends_to_one_after_the_other() -> None:
    n, p = 1e6, 4
    found = gathered((1, p), n)
    assert found["mesh"] == pytest.approx((p - 1) * (2 + n / p / PORT)) == found["ring"]
    assert found["nhr"] == pytest.approx(2 * 2 + (p - 1) / p * n / PORT)


def test_a_ring_passes_on() -> None:
    ring = Cluster((replace(FAST, topology="ring"),))
    n, p = 1e6, 8
    found = gathered((p,), n, ring)
    assert found["ring"] == pytest.approx((p - 1) * (1 + n / p / B))
    # 1 + 2 + 3 + 4 parts over each link one way round, 3 + 2 + 1 the other one
    assert found["mesh"] == pytest.approx(4 * 1 + 10 * n / p / B)


def test_two_levels() -> None:
    """Between servers a part of the value, then in the server."""
    n = 1e7
    found = gathered((8, 4), n)
    between, inside = 4 + 3 / 4 * n / 8 / PORT, 1 + n / 8 / B
    assert found["two_level"] == pytest.approx(between + inside)
    assert found["mesh"] == pytest.approx(24 * (2 + n / 32 / PORT))
    assert cheapest(found) == "two_level"


def test_an_all_reduce_scatters_adds_and_gathers() -> None:
    n, p, start = 1e6, 8, 10.0
    cluster = replace(PLAIN, start_us=start)
    gamma = 3 / (TARGET.hbm_rate * TARGET.cube_cores * TARGET.cycles_per_us)
    sums = (p - 1) / p * n * gamma
    for kind, want in (
        ("all_gather", start + 1 + n / p / B),
        ("reduce_scatter", start + 1 + n / p / B + sums),
        ("all_reduce", start + 2 * (1 + n / p / B) + sums),
    ):
        found = reduction_us(kind, cluster, (p, 1), n, TARGET)
        assert found["mesh"] == pytest.approx(want)


@pytest.mark.parametrize(
    ("mesh", "axes", "spread"),
    [
        ({"tp": 8}, "tp", (8, 1)),
        ({"dp": 2, "tp": 8}, "tp", (8, 1)),
        ({"dp": 2, "tp": 8}, "dp", (1, 2)),
        ({"dp": 4, "tp": 4}, "dp", (2, 2)),
        ({"dp": 4, "tp": 4}, "tp dp", (8, 2)),
        ({"dp": 2, "tp": 3}, "dp", (2, 1)),  # all of it lies in one server
        ({"dp": 2, "tp": 6}, "tp", (1, 6)),  # devices 6 to 11 lie in two
        ({"tp": 16}, "tp:(1)4", (2, 2)),
        ({"tp": 16}, "tp:(4)4", (4, 1)),
    ],
)
def test_the_last_axes_lie_in_a_server(
    mesh: dict[str, int], axes: str, spread: tuple[int, ...]
) -> None:
    def axis(text: str) -> Axis:
        name, _, digits = text.partition(":(")
        pre, _, size = digits.partition(")")
        return Axis(name, int(pre or 1), int(size or 0))

    assert PLAIN.spread(Mesh(tuple(mesh.items())), [*map(axis, axes.split())]) == spread


@pytest.mark.parametrize("axes", ["dp", "tp", "dp tp", "ep tp", "dp ep"])
def test_devices_lie_where_a_mesh_says(axes: str) -> None:
    """Of several groups the one that lies furthest apart counts: in a mesh of which devices are
    numbered along the first axis first, that lies in a server."""
    sizes = {"dp": 4, "ep": 2, "tp": 4}
    turned = Mesh(tuple(reversed(sizes.items())))
    numbers = [turned.index(map(Axis, sizes), device) for device in range(32)]
    mesh = Mesh(tuple(sizes.items()), tuple(sorted(range(32), key=numbers.__getitem__)))
    own = [*map(Axis, axes.split())]
    assert PLAIN.spread(mesh, own) == PLAIN.spread(turned, own)
    apart = Mesh((("tp", 16),), (8, *range(1, 8), 0, *range(9, 16)))
    assert PLAIN.spread(apart, [Axis("tp", 1, 2)]) == (1, 2)
    assert PLAIN.spread(apart, [Axis("tp", 2, 8)]) == (1, 8)  # 7 in one server, and 1


MOVES = """graph.mesh @mesh ["tp"=4]
func.func @main(%x: tensor<2x1024xf32>) {
  %0 = graph.all_to_all %x shape [8, 1024] has <@mesh, [{"tp":(1)4}, {}]>
    to <@mesh, [{}, {"tp":(1)4}]> : (tensor<2x1024xf32>) -> tensor<8x256xf32>
  %1 = graph.exchange %x shape [8, 1024] has <@mesh, [{"tp":(1)4}, {}]>
    needs <["tp"=4 * 2 + -1 : 4], [0 : 1024]> : (tensor<2x1024xf32>) -> tensor<4x1024xf32>
  func.return
}"""


def test_what_moves_in_boxes() -> None:
    module = parse_module(context(), SourceText("test.mlir", MOVES))
    target = replace(TARGET, cluster=PLAIN)
    ops = {type(op): op for op in module.walk()}
    all_to_all, halo = ops[AllToAllOp], ops[ExchangeOp]
    assert isinstance(all_to_all, AllToAllOp)
    assert isinstance(halo, ExchangeOp)
    part = 2 * 256 * 4  # bytes for each other device
    found = times(all_to_all, target)
    assert found == pytest.approx({"mesh": 1 + part / B, "pairwise": 3 * (1 + part / B)})
    row = 1024 * 4  # to each of two neighbours
    assert times(halo, target) == pytest.approx(
        {"mesh": 1 + row / B, "pairwise": 2 * (1 + row / B)}
    )


@pytest.mark.parametrize("devices", [4, 1024])
def test_the_search_asks_for_the_time_that_the_clock_takes(devices: int) -> None:
    """Of 1,024 devices each sends each of 32 others something, or hundreds: by their number, not by
    bytes alone."""
    axis = f'"tp":(1){devices}'
    text = f"""
graph.mesh @mesh ["tp"={devices}]
func.func @main(%x: tensor<{4096 // devices}x1024xf32>) {{
  %0 = graph.all_to_all %x shape [4096, 1024] has <@mesh, [{{{axis}}}, {{}}]>
    to <@mesh, [{{}}, {{{axis}}}]> : (tensor<{4096 // devices}x1024xf32>) -> tensor<4096x{1024 // devices}xf32>
  %1 = graph.exchange %x shape [4096, 1024] has <@mesh, [{{{axis}}}, {{}}]>
    needs <[0 : 4096], [0 : 32]> : (tensor<{4096 // devices}x1024xf32>) -> tensor<4096x32xf32>
  func.return
}}"""  # noqa: E501
    module = parse_module(context(), SourceText("test.mlir", text))
    mesh = mesh_of(module)
    assert mesh is not None
    target = Target.load("910b2")
    rates = TimedRates(target, mesh)
    ops = [op for op in module.walk() if isinstance(op, AllToAllOp | ExchangeOp)]
    assert len(ops) == 2
    for op in ops:
        to = op.to.data if isinstance(op, AllToAllOp) else op.needs.data
        step = Step(op.name.rpartition(".")[2], op.group(), to)
        asked = rates.sending_s(step, op.has.data, op.whole, 32)
        assert asked * 1e6 == pytest.approx(collective_us(op, target))


def test_choices_are_texts_or_a_table() -> None:
    assert Options(collective={"all_reduce": "ring"}) == Options(collective=("all_reduce=ring",))  # pyright: ignore[reportArgumentType]


def test_clusters_in_files() -> None:
    for name in ("910b2", "910_93"):
        target = Target.load(name)
        assert Target.of(tomllib.loads(toml_text(target)), name) == target
    assert Target.load("910_93").cluster != TARGET.cluster
    assert (TARGET.cluster or PLAIN).devices == 1024


LEVEL = {"devices": 8, "topology": "mesh", "link_gbs": 28.0}


@pytest.mark.parametrize(
    ("cluster", "message"),
    [
        (2, "'cluster' is a table of levels, not 2"),
        ({"start_us": 1.0}, "'cluster' has no level"),
        ({"starts_us": 1.0, "a": LEVEL}, "unknown key 'cluster.starts_us'"),
        ({"a": LEVEL | {"devices": 1}}, "'cluster.a.devices' is from 2 to .*, not 1"),
        ({"a": LEVEL | {"devices": 8.0}}, "'cluster.a.devices' is an integer, not 8.0"),
        (
            {"a": LEVEL | {"topology": "tree"}},
            "topology' is one of mesh, .*, not 'tree'",
        ),
        ({"a": LEVEL | {"efficiency": 1.5}}, "'cluster.a.efficiency' is from 0.001 to 1, not 1.5"),
        ({"a": LEVEL | {"link_gb": 1}}, "unknown key 'cluster.a.link_gb'; did you mean 'link_gbs'"),
        ({"a": LEVEL | {"link": 1}}, "'cluster.a.link' is a text, not 1"),
        ({"a": {"devices": 8}}, "missing keys of cluster.a: topology, link_gbs"),
    ],
)
def test_what_is_wrong_in_a_cluster_is_said(cluster: Any, message: str) -> None:
    with pytest.raises(GeError, match=message):
        Cluster.of(cluster, "my.toml")
