"""`@tile.program` for op classes of ge's own, from plug-in files and installed packages."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pytest
from xdsl.universe import Universe

from ge.dialects.graph.normalization import SoftmaxOp
from ge.dialects.support.packages import Installed, Package, looking_again
from ge.runtime.library import launch
from ge.tools.commands import ge_compile, ge_run

PROGRAM = """
from typing import Any
from ge import tile
from ge.dialects.graph.normalization import SoftmaxOp

@tile.kernel(M=8)
def own(c: Any, x: Any, out: Any, M: int) -> None:
    t = c.ub(M, x.shape[1], copies=2)
    for i in c.share(tile.ceil_div(x.shape[0], M)):
        c.load(t[i], x[i * M :], pad=0)
        t[i] = tile.exp(t[i] - tile.rowmax(t[i]))
        t[i] = t[i] / tile.rowsum(t[i])
        c.store(out[i * M :], t[i])

@tile.program(SoftmaxOp)
def softmax(op: SoftmaxOp) -> tile.Returning:
    return own.returning(lambda x: x, cores=3)
"""
SOFTMAX = """
func.func @main(%x: tensor<64x64xf32> {graph.name = "x"})
    -> (tensor<64x64xf32> {graph.name = "y"}) {
  %0 = graph.softmax %x : (tensor<64x64xf32>) -> tensor<64x64xf32>
  func.return %0 : tensor<64x64xf32>
}
"""
FUSED = SOFTMAX.replace(
    "%0 =", "%1 = graph.neg %x : (tensor<64x64xf32>) -> tensor<64x64xf32>\n%0 ="
)
FUSED = FUSED.replace("softmax %x", "softmax %1")


@pytest.fixture(autouse=True)
def nothing_registered(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test registers ends with it."""
    monkeypatch.setattr(launch, "_PROGRAMS", {})


Compile: TypeAlias = Callable[..., tuple[str, str]]


@pytest.fixture
def compiled(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Compile:
    """Compile a text with tile programs: the program, and what is printed to standard error."""

    def run(text: str, *options: str) -> tuple[str, str]:
        source, program = tmp_path / "m.mlir", tmp_path / "p.mlir"
        source.write_text(text)
        files = [str(source), "-o", str(program), "--tile-cache", str(tmp_path / "tiles")]
        assert ge_compile([*files, "--target", "910b2", "--tiles", *options]) == 0
        return program.read_text(), capfd.readouterr().err

    return run


@pytest.fixture
def plugin(tmp_path: Path) -> str:
    (tmp_path / "own_softmax.py").write_text(PROGRAM)
    return str(tmp_path / "own_softmax.py")


def test_of_a_plugin_file(compiled: Compile, plugin: str, tmp_path: Path):
    """Kept programs are ge's own: with the file, none of them is taken, nor is its program kept."""
    before, _ = compiled(SOFTMAX)
    assert "cores 3" not in before
    text, err = compiled(SOFTMAX, "--load-plugin", plugin)
    assert "tile.kernel @softmax_0_tiles" in text
    assert "cores 3" in text
    assert "warning" not in err
    x = np.random.default_rng(0).standard_normal((64, 64)).astype("f4")
    np.savez(tmp_path / "x.npz", x=x)
    files = ["--inputs", str(tmp_path / "x.npz"), "--outputs", str(tmp_path / "y.npz")]
    assert ge_run([str(tmp_path / "p.mlir"), "--tiles", *files]) == 0
    e = np.exp(x - x.max(1, keepdims=True))
    y = np.load(tmp_path / "y.npz")["y"]
    np.testing.assert_allclose(y, e / e.sum(1, keepdims=True), rtol=1e-5)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(launch, "_PROGRAMS", {})
        assert compiled(SOFTMAX)[0] == before


def test_fused_with_others_it_is_said_that_it_is_not_used(compiled: Compile, plugin: str):
    text, err = compiled(FUSED, "--load-plugin", plugin)
    assert "cores 3" not in text
    said = "the tile program that is registered for graph.softmax is not used in @region_0"
    assert f"{said}, where it is fused with graph.neg" in err
    text, err = compiled(FUSED, "--load-plugin", plugin, "--fusion", "off")
    assert "cores 3" in text
    assert "is not used" not in err


def test_of_an_installed_package(
    compiled: Compile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """One that cannot be imported is left out, since the op is none of its own."""
    (tmp_path / "acme_softmax.py").write_text(PROGRAM)
    monkeypatch.syspath_prepend(tmp_path)
    packages = [
        Installed(name, "1", name, Package(tiles=[module]))
        for name, module in (("gone", "no_such_module"), ("acme", "acme_softmax"))
    ]
    packages.append(Installed("plain", "1", "plain", Universe()))
    monkeypatch.setattr(launch, "installed", lambda: packages)
    with looking_again():
        text, err = compiled(SOFTMAX)
    assert "cores 3" in text
    assert "module 'no_such_module' of package 'gone' 1 is left out" in err
    assert launch.registered() == [SoftmaxOp]
    sys.modules.pop("acme_softmax")
