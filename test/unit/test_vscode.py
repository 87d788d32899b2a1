"""The extension for Visual Studio Code: its files agree with each other and with the dialects."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from ge.lowering.plugins.universe import GE_UNIVERSE

FOLDER = Path(__file__).parents[2] / "editors" / "vscode"


def read(name: str) -> Any:
    return json.loads((FOLDER / name).read_text("utf-8"))


def test_the_files_that_it_names_are_there():
    package = read("package.json")
    adds = package["contributes"]
    named = [package["main"], *(g["path"] for g in adds["grammars"])]
    named += [language["configuration"] for language in adds["languages"]]
    for name in named:
        assert (FOLDER / name).is_file(), name
    settings = adds["configuration"]["properties"]
    script = (FOLDER / "extension.js").read_text("utf-8")
    for name in settings:
        assert f'"{name.removeprefix("ge.")}"' in script or name == "ge.trace.server"
    for command in adds["commands"]:
        assert f'"{command["command"]}"' in script


def test_the_grammar_knows_the_dialects():
    """Each op in the colour of ge's ops, and what looks like one but is none in another."""
    grammar = read("syntaxes/mlir.tmLanguage.json")["repository"]
    op = re.compile(grammar["ge-op"]["match"])
    for dialect in GE_UNIVERSE.all_dialects.values():
        for kind in dialect().operations:
            match = op.search(f"  %0 = {kind.name} %x : i1")
            assert match is not None, kind.name
            assert f"{match[1]}.{match[3]}" == kind.name
    for text in ('{graph.name = "x"}', "#graph.weight", "!tile.token", "@graph.main", '"graph.x"'):
        assert op.search(text) is None, text


def test_all_patterns_of_the_grammar_are_included():
    grammar = read("syntaxes/mlir.tmLanguage.json")
    included = [p["include"].removeprefix("#") for p in grammar["patterns"]]
    assert sorted(included) == sorted(grammar["repository"])


def test_the_script_is_javascript():
    if (node := shutil.which("node")) is None:
        pytest.skip("no node")
    done = subprocess.run([node, "--check", FOLDER / "extension.js"], capture_output=True)
    assert done.returncode == 0, done.stderr


def test_nothing_that_npm_makes_is_kept():
    done = subprocess.run(["git", "ls-files", FOLDER], capture_output=True, text=True, cwd=FOLDER)
    if done.returncode:
        pytest.skip("not in a git repository")
    made = [n for n in done.stdout.split() if re.search(r"node_modules|\.vsix$|package-lock", n)]
    assert made == []
