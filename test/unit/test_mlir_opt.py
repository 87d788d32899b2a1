"""The flags of mlir-opt: what docs/mlir_opt.md says of both tools is what they do."""

import re
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from mlir_flags import INPUTS, MLIR_OPT, PAGE, ROWS, Row, normalized, run, with_table

GE_OPT = str(Path(sys.executable).parent / "ge-opt")
PLUGIN = Path(__file__).parents[1] / "tools" / "Inputs" / "plugin.py"


def test_the_page_has_the_table():
    page = PAGE.read_text()
    assert page == with_table(page), "python test/unit/mlir_flags.py writes it"


def outputs(row: Row, folder: Path) -> tuple[str, str]:
    file = folder / row.input
    for name, text in INPUTS.items():
        (folder / name).write_text(text)
    texts: list[str] = []
    for tool, command in (("mlir-opt", MLIR_OPT), ("ge-opt", GE_OPT)):
        words = [w.replace("PLUGIN", str(PLUGIN)) for w in row.words(tool, folder / tool)]
        texts.append(run([str(command), *words], file, folder / tool))
    return texts[0], texts[1]


@pytest.mark.soak
@pytest.mark.skipif(MLIR_OPT is None, reason="mlir-opt is not installed (mlir-19-tools)")
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.flag)
def test_each_tool_does_what_the_table_says(row: Row, tmp_path: Path):
    theirs, ours = outputs(row, tmp_path)
    assert re.search(row.found, theirs, re.MULTILINE), theirs
    pattern = row.found if row.found_ge is None else row.found_ge
    assert re.search(pattern, ours, re.MULTILINE), ours
    assert not row.same or normalized(theirs) == normalized(ours)


@pytest.mark.soak
@pytest.mark.skipif(MLIR_OPT is None, reason="mlir-opt is not installed (mlir-19-tools)")
def test_each_takes_the_reproducers_of_the_other(tmp_path: Path):
    file = tmp_path / "a.mlir"
    file.write_text(INPUTS["a.mlir"])
    tools = {"theirs": str(MLIR_OPT), "ours": GE_OPT}
    texts: list[str] = []
    for name, command in tools.items():
        made = tmp_path / f"{name}.mlir"
        run([command, "--cse", f"--mlir-generate-reproducer={made}"], file, tmp_path / f"by {name}")
        for other, command_of_other in tools.items():
            folder = tmp_path / f"{name} in {other}"
            said = run([command_of_other, "--run-reproducer"], made, folder)
            texts.append(normalized(said.partition("{-#")[0].rstrip()))
    assert len({*texts}) == 1, "\n".join(texts)
    assert texts[0].count("arith.addf") == 1
