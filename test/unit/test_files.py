"""Outputs appear complete or not at all."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from ge.dialects.support.errors import GeError
from ge.runtime.data.files import Outputs, is_device, write_text


def write_two(first: Path, second: Path) -> None:
    with Outputs() as out:
        out.text(first, "after")
        out.json(second, {})


def write_and_fail(file: Path) -> None:
    with Outputs() as out:
        out.bytes(file, b"data")
        raise KeyError


def test_all_or_none(tmp_path: Path):
    old = tmp_path / "old"
    old.write_text("before")
    with pytest.raises(GeError, match=r"cannot write '.*b': No such file"):
        write_two(old, tmp_path / "none" / "b")
    assert old.read_text() == "before"
    assert os.listdir(tmp_path) == ["old"]


def test_an_exception_leaves_nothing(tmp_path: Path):
    with pytest.raises(KeyError):
        write_and_fail(tmp_path / "a")
    assert os.listdir(tmp_path) == []


def test_an_output_takes_the_place_of_no_input(tmp_path: Path):
    model, link = tmp_path / "m.onnx", tmp_path / "link"
    model.write_text("model")
    link.symlink_to(model)
    for name in ("m.onnx", "link", "./m.onnx"):
        with pytest.raises(GeError, match="it is an input"):
            write_text(str(tmp_path / name), "text", [model])
    assert model.read_text() == "model"


@pytest.mark.parametrize("name", ["", "none/"])
def test_what_is_no_name(name: str):
    with pytest.raises(GeError, match="it is no name of a file"):
        write_text(name, "text")


@pytest.mark.parametrize("length", [240, 255])
def test_long_names(length: int, tmp_path: Path):
    write_text(tmp_path / ("x" * length), "text")
    assert [len(name) for name in os.listdir(tmp_path)] == [length]
    with pytest.raises(GeError, match="File name too long"):
        write_text(tmp_path / ("x" * 256), "text")


def test_whoever_is_killed_leaves_nothing(tmp_path: Path):
    code = f"""
import os, signal
from ge.runtime.data.files import Outputs
with Outputs() as out:
    for name in ("a", "b"):
        out.text({str(tmp_path)!r} + "/" + name, "half")
    os.kill(os.getpid(), signal.SIGKILL)
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == -9
    assert os.listdir(tmp_path) == []


def test_without_unnamed_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delattr(os, "O_TMPFILE")
    write_text(tmp_path / "a", "text")
    with pytest.raises(KeyError):
        write_and_fail(tmp_path / "b")
    assert os.listdir(tmp_path) == ["a"]


def test_a_full_disk(tmp_path: Path):
    link = tmp_path / "full"
    link.symlink_to("/dev/full")
    with pytest.raises(GeError, match="No space left on device"):
        write_text(link, "text")


def test_permissions_and_links_stay(tmp_path: Path):
    file, link = tmp_path / "file", tmp_path / "link"
    file.write_text("before")
    file.chmod(0o640)
    link.symlink_to(file)
    write_text(link, "after")
    assert link.is_symlink()
    assert file.read_text() == "after"
    assert stat.S_IMODE(file.stat().st_mode) == 0o640


def test_a_new_file_has_the_usual_permissions(tmp_path: Path):
    mask = os.umask(0o027)
    try:
        write_text(tmp_path / "new", "")
    finally:
        os.umask(mask)
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o640


def test_a_folder_is_refused(tmp_path: Path):
    with pytest.raises(GeError, match="it is a folder"):
        write_text(tmp_path, "")


def test_a_folder_in_memory_has_files_and_dev_has_devices():
    assert not is_device(Path("/dev/shm/models/program.mlir"))
    assert all(map(is_device, map(Path, ("/dev/stdout", "/dev/fd/1", "/dev/null"))))
