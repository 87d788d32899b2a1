"""ge-tune: parameters of kernels in Python, by time."""

import json
from pathlib import Path
from typing import Any

import pytest
from kernels_by_hand import gemm

from ge import tile
from ge.dialects.support.errors import GeError
from ge.lowering.building.tile_kernels import Tunings, tune
from ge.tools.commands import ge_tune

A = tile.Tensor((256, 256), "f16")
PLACE = "kernels_by_hand:gemm"
TYPES = ["a=256x256xf16", "b=256x256xf16", "out=256x256xf16"]


def test_the_fastest_of_all_is_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    file = str(tmp_path / "t.json")
    assert ge_tune([PLACE, *TYPES, "M=32,64,4096", "N=64,256", "-o", file]) == 0
    out, err = capsys.readouterr()
    assert "6 programs tried, all" in out
    assert "M=4096, N=64" in err
    assert "l1 of 910b2 has 524288 bytes" in err  # what does not fit is left out
    (row,) = json.loads(Path(file).read_text())["tunings"]
    fastest = min(gemm.on(A, A, A, M=m, N=n).time().total_us for m in (32, 64) for n in (64, 256))
    assert row["us"] == fastest
    assert gemm.on(A, A, A, tunings=file).time().total_us == fastest
    own = gemm.on(A, A, A).time().total_us
    assert gemm.on(A, A, A, tunings=file, M=128, N=256).time().total_us == own
    other = tile.Tensor((512, 512), "f16")  # nothing is kept for these
    assert gemm.on(other, other, other, tunings=file).mlir == gemm.on(other, other, other).mlir


def test_another_entry_stays_and_the_same_is_replaced():
    first = tune(gemm, (A, A, A), {"M": [32]}).entry
    second = tune(gemm, (A, A, A), {"M": [64]}).entry
    third = tune(gemm, (A, A, A), {"M": [64]}, target="910b3").entry
    kept = Tunings({}).with_entry(first).with_entry(second).with_entry(third)
    assert [e.parameters for e in kept.entries.values()] == [{"M": 64}, {"M": 64}]


def test_more_combinations_than_the_limit():
    choices = {"M": [16, 32, 64, 128], "N": [16, 64, 128], "K": [32, 64, 128]}
    tuning = tune(gemm, (A, A, A), choices, limit=14)
    assert len(tuning.trials) <= 14
    assert tuning.summary.endswith("programs tried, of 36)")
    own = gemm.on(A, A, A, M=128, N=16, K=128).time().total_us  # where the search begins
    assert tuning.entry.us <= own


def test_a_kernel_that_changed_is_another_one(tmp_path: Path):
    def kernel(size: int) -> Any:
        text = (tmp_path / f"k{size}.py").resolve()
        text.write_text(
            "from ge import tile\n"
            "@tile.kernel(M=16)\n"
            "def k(c, x, y, M):\n"
            "    t = c.ub(M, x.shape[1])\n"
            "    for i in c.share(x.shape[0] // M):\n"
            f"        c.load(t, x[i * M:]); t[:] = t * {size}; c.store(y[i * M:], t)\n"
        )
        from ge.tools.cli.tune import kernel_of

        return kernel_of(f"{text}:k")

    entry = tune(kernel(2), (A, A), {"M": [32]}).entry
    tunings = Tunings({}).with_entry(entry)
    assert tunings.parameters(kernel(2), entry.arguments, "910b2") == {"M": 32}
    assert tunings.parameters(kernel(3), entry.arguments, "910b2") == {}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["gemm"], "'gemm' names no kernel; write FILE.py:KERNEL"),
        (["nowhere.py:k"], "nowhere.py: error: it cannot be imported: FileNotFoundError"),
        ([PLACE.replace("gemm", "gem")], "has no kernel 'gem'; did you mean 'gemm'?"),
        ([PLACE, "a=64x64xf16"], "@gemm needs a type for 'b'; write b=512x256xf16"),
        ([PLACE, *TYPES, "m=1"], "@gemm has no 'm'"),
        ([PLACE, *TYPES[1:], "a=f16"], "a: a type such as 512x256xf16, not 'f16'"),
        ([PLACE, *TYPES, "M=big"], "M: numbers such as 64,128, not 'big'"),
        ([PLACE, *TYPES, "M=4096"], "@gemm runs with none of the choices: l1 of 910b2"),
        ([PLACE, *TYPES, "--limit", "0"], "--limit: a whole number of at least 1, not '0'"),
    ],
)
def test_bad_input(words: list[str], message: str, capsys: pytest.CaptureFixture[str]):
    assert ge_tune(words) == 1
    assert message in capsys.readouterr().err


def test_files_that_hold_no_tunings(tmp_path: Path):
    file = tmp_path / "t.json"
    file.write_text("[]")
    with pytest.raises(GeError, match="it is no file of tunings"):
        gemm.on(A, A, A, tunings=str(file))
    with pytest.raises(GeError, match="@plain has no parameters to choose"):
        tune(plain, (A, A))


@tile.kernel
def plain(c: Any, x: Any, y: Any) -> None:
    t = c.ub(16, x.shape[1])
    c.load(t, x[0:])
    c.store(y[0:], t)
