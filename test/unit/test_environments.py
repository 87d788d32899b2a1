"""The suite does the same on other machines: variables of a user change nothing, tools of the
environment are there where it is not activated, figures of arrays are compared as figures."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from documents import ROOT, check_shown
from test_sanity import bench

OF_A_USER = {"GE_TARGET": "none", "GE_FUSON": "1", "ASCEND_PROFILING_ENABLE": "1"}
BARE = {"PATH": os.defpath, "HOME": os.environ.get("HOME", "/")} | OF_A_USER

CONFTEST = """
import os, shutil
import conftest
print(sorted(n for n in os.environ if n.startswith(("GE_", "ASCEND_"))))
print(shutil.which("iree-opt"))
"""


def test_unit_tests_begin_alike() -> None:
    command = [sys.executable, "-c", CONFTEST]
    run = subprocess.run(
        command, cwd=ROOT / "test", env=BARE, capture_output=True, text=True, check=True
    )
    variables, tool = run.stdout.splitlines()
    assert variables == "['GE_PACKAGES_OFF', 'GE_SANITIZE']"
    assert tool == str(Path(sys.executable).parent / "iree-opt")


@pytest.mark.parametrize("shell", ["", "1"])
def test_lit_tests_begin_alike(shell: str) -> None:
    command = [str(Path(sys.executable).parent / "lit"), "-q", "-j1"]
    test = ROOT / "test/dialects/graph/signal_errors.mlir"
    environment = BARE | {"LIT_SHELL": shell}
    run = subprocess.run(
        [*command, str(test)], env=environment, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stdout + run.stderr


@pytest.mark.soak
def test_lit_tests_pass_with_llvms_filecheck() -> None:
    """All of them, so that the checks are those of one language."""
    names = ("FileCheck", *(f"FileCheck-{version}" for version in range(22, 13, -1)))
    checker = next(filter(None, map(shutil.which, names)), None)
    if checker is None:
        pytest.skip("FileCheck is not installed (llvm-19-tools)")
    command = [str(Path(sys.executable).parent / "lit"), "-q", str(ROOT / "test")]
    environment = BARE | {"FILECHECK": checker}
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr


# What Python's regular expressions know, and POSIX's do not, in `{{...}}` or `[[NAME:...]]`
PYTHONS = re.compile(r"(\{\{|\[\[\w+:)[^}]*(\\[dDwWsSbB]|\(\?)")


def test_checks_are_those_of_llvm() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{number}: {line}"
        for path in (ROOT / "test").rglob("*.mlir")
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if line.lstrip().startswith("//") and "RUN:" not in line and PYTHONS.search(line)
    ]
    assert not wrong, "\n".join(wrong)


SHOWN = "y: float32[2, 3] min -3.72233, max 2.95135, mean -0.00230263\n"


@pytest.mark.parametrize("printed", [
    SHOWN,
    "y: float32[2, 3] min -3.72234, max 2.95135, mean -0.00230\n",
])  # fmt: skip
def test_figures_of_arrays_are_compared_as_figures(printed: str) -> None:
    check_shown(SHOWN, f"before\n{printed}")
    check_shown("y: ... min -3.72233, ...", printed)


@pytest.mark.parametrize("printed", [
    SHOWN.replace("-3.72233", "-3.72333"),
    SHOWN.replace("-0.00230263", "-0.00330263"),
    SHOWN.replace("2.95135", "nan"),
    SHOWN.replace("[2, 3]", "[2, 4]"),
])  # fmt: skip
def test_other_figures_are_not_what_is_shown(printed: str) -> None:
    with pytest.raises(AssertionError, match="is not printed there"):
        check_shown(SHOWN, printed)


def test_other_numbers_are_compared_as_text() -> None:
    with pytest.raises(AssertionError, match="is not printed there"):
        check_shown("latency 1.00000 us", "latency 1.00001 us")


def test_processors_that_are_skipped_are_reported(capfd: pytest.CaptureFixture[str]) -> None:
    machines, have = bench("machines"), {"sse4_2", "avx", "avx2", "fma"}
    first, *runs = [name for name, _ in machines.environments(have, ("1", "2"))]
    assert first == "variables of a user, not activated, threads: 2"
    assert len(runs) == 2 * 5
    skipped = capfd.readouterr().out
    assert skipped.startswith("SKYLAKEX: skipped, as this processor has no avx512bw, ")
    assert not any("SKYLAKEX" in name for name in runs)


def test_products_of_the_same_bits_are_tried_once(capfd: pytest.CaptureFixture[str]) -> None:
    """The first run is tried for its variables, whatever its products."""
    machines = bench("machines")
    machines.products = lambda variables: variables["OPENBLAS_NUM_THREADS"]
    runs = [(name, machines.threads(name[0])) for name in ("1", "2", "1 again", "2 again", "3")]
    assert [name for name, _ in machines.distinct(runs)] == ["1", "2", "3"]
    assert capfd.readouterr().out.splitlines() == [
        "1 again: skipped, as its products have the bits of make unit",
        "2 again: skipped, as its products have the bits of 2",
    ]


def test_products_depend_on_the_processor() -> None:
    machines = bench("machines")
    if machines.lacking("HASWELL", machines.instructions()):
        pytest.skip("this processor has one kind of kernels")
    cores = [{"OPENBLAS_CORETYPE": name} for name in ("NEHALEM", "HASWELL", "NEHALEM")]
    first, other, again = [machines.products(core | machines.threads("1")) for core in cores]
    assert first == again != other
