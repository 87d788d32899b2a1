"""Weights: external data of ONNX models, the safetensors payload, and files written all or none."""

import os
import stat
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from xdsl.dialects.builtin import StringAttr

from ge.dialects.support.errors import GeError
from ge.lowering.onnx.importer import Imported, import_file
from ge.runtime.data.files import Outputs, write_module
from ge.runtime.data.npz import read_npz
from ge.runtime.data.weights import (
    RandomPayload,
    SafetensorsPayload,
    open_payload,
    write_safetensors,
)
from ge.runtime.device.session import Session
from ge.tools.commands import ge_import

W = np.arange(1000, dtype=np.float32).reshape(2, 500)


def save(path: Path, tensor: TensorProto) -> None:
    """A model y = x * w."""
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("Mul", ["x", "w"], ["y"])], "g", [info("x", 1, [2, 500])],
        [info("y", 1, [2, 500])], [tensor],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    path.write_bytes(model.SerializeToString())


def external(dims: list[int] | None = None, **entries: Any) -> TensorProto:
    tensor = TensorProto(name="w", data_type=1, dims=[2, 500] if dims is None else dims)
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in entries.items():
        tensor.external_data.add(key=key, value=str(value))
    return tensor


def run(imported: Imported) -> np.ndarray:
    imported.module.verify()
    session = Session(imported.module, imported.payload)
    return session.run({"x": np.ones((2, 500), np.float32)})["y"]


# ---- external data of ONNX models ----------------------------------------------------------------


def test_external_data_is_mapped(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "w.bin").write_bytes(b"?" * 64 + W.tobytes() + b"?" * 10)
    save(tmp_path / "m.onnx", external(location="data/w.bin", offset=64, length=4000))
    imported = import_file(tmp_path / "m.onnx")
    assert not imported.payload["w"].flags.owndata
    assert not imported.payload["w"].flags.writeable
    np.testing.assert_array_equal(run(imported), W)


def test_external_data_that_is_missing(tmp_path: Path) -> None:
    save(tmp_path / "m.onnx", external(location="w.bin"))
    imported = import_file(tmp_path / "m.onnx")
    assert imported.payload == {}
    assert '#graph.weight<"w"> : tensor<2x500xf32>' in str(imported.module)
    with pytest.raises(GeError, match="'w'"):
        run(imported)


@pytest.mark.parametrize(
    ("tensor", "message"),
    [
        (external(location="/etc/passwd"), "'/etc/passwd' is outside of the model's folder"),
        (external(location="../w.bin"), "'../w.bin' is outside of the model's folder"),
        (external(location="data/../../w.bin"), "is outside of the model's folder"),
        (external(), "has no usable location"),
        (external(location="..\\w.bin"), "has no usable location"),
        (external(location="."), "is not a file"),
        (external(location="empty.bin"), "is an empty file"),
        (external(location="link.bin"), "is reached through a link"),
        (external(location="linked/w.bin"), "is reached through a link"),
        (external(location="w.bin", length=4), "has length 4, but the tensor has 4000 bytes"),
        (external(location="w.bin", offset=100), "is beyond the end of 'w.bin' (4000 bytes)"),
        (external(location="w.bin", offset=-4), "has offset '-4'"),
        (external(location="w.bin", offset="1e3"), "has offset '1e3'"),
        (external([2**31, 2**31], location="w.bin"), "dimensions [2147483648, 2147483648] are abs"),
        (external([-1], location="w.bin"), "dimensions [-1] are absurd"),
        (TensorProto(name="w", data_type=1, dims=[2, 500], raw_data=b"1234"),
         "4 bytes are given for tensor<2x500xf32>, which has 4000"),
        (TensorProto(name="w", data_type=1, dims=[2, 500], float_data=[1.0]),
         "1 elements are given for dimensions [2, 500]"),
        (TensorProto(name="w", data_type=99, dims=[2]), "element type number 99 is not supported"),
        (TensorProto(name="w", data_type=TensorProto.STRING, dims=[0]),
         "element type string is not supported"),
    ],
)  # fmt: skip
def test_hostile_tensor(tmp_path: Path, tensor: TensorProto, message: str) -> None:
    folder, outside = tmp_path / "model", tmp_path / "w.bin"
    folder.mkdir()
    outside.write_bytes(W.tobytes())
    (folder / "w.bin").write_bytes(W.tobytes())
    (folder / "empty.bin").touch()
    (folder / "link.bin").symlink_to(outside)
    (folder / "linked").symlink_to(tmp_path)
    save(folder / "m.onnx", tensor)
    with pytest.raises(GeError) as e:
        import_file(folder / "m.onnx")
    assert str(e.value).startswith(f"{folder / 'm.onnx'}: error: initializer 'w': ")
    assert message in str(e.value)


def test_sparse_initializer(tmp_path: Path) -> None:
    dense = np.zeros((2, 500), np.float32)
    dense[1, [3, 7]] = [5, 6]
    values = numpy_helper.from_array(np.float32([5, 6]), "w")
    for indices in (np.array([503, 507]), np.array([[1, 3], [1, 7]])):
        save(tmp_path / "m.onnx", values)
        model = onnx.load(tmp_path / "m.onnx")
        del model.graph.initializer[:]
        model.graph.sparse_initializer.add(
            values=values, indices=numpy_helper.from_array(indices), dims=[2, 500]
        )
        onnx.save(model, tmp_path / "m.onnx")
        np.testing.assert_array_equal(run(import_file(tmp_path / "m.onnx")), dense)


# ---- the payload ---------------------------------------------------------------------------------

ARRAYS: dict[str, Any] = {
    "f32": W,
    "bf16": np.ones(3, ml_dtypes.bfloat16),
    "scalar": np.array(True),
    "none": np.zeros((0, 4), np.int64),
    'odd "name"\n': np.arange(3, dtype=np.uint8),
}


def test_safetensors_round_trip(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    with path.open("wb") as file:
        write_safetensors(file, ARRAYS)
    payload = SafetensorsPayload(path)
    assert set(payload) == set(ARRAYS)
    assert payload.get("missing") is None
    for key, array in ARRAYS.items():
        assert payload[key].dtype == array.dtype
        np.testing.assert_array_equal(payload[key], array)
    with pytest.raises(ValueError, match="read-only"):
        payload["f32"][0] = 0


def test_other_readers_read_it(tmp_path: Path) -> None:
    from safetensors.numpy import load_file

    path = tmp_path / "x.safetensors"
    with path.open("wb") as file:
        write_safetensors(file, {"f32": W, "bool": np.array([True, False])})
    np.testing.assert_array_equal(load_file(path)["f32"], W)


@pytest.mark.parametrize("data", [b"", b"text", b"\xff" * 100, None])
def test_damaged_safetensors(tmp_path: Path, data: bytes | None) -> None:
    path = tmp_path / "x.safetensors"
    with path.open("wb") as file:
        write_safetensors(file, {"f32": W})
    path.write_bytes(path.read_bytes()[:-1] if data is None else data)
    with pytest.raises(GeError, match=r"x.safetensors: error: cannot read the weights"):
        SafetensorsPayload(path)


def test_import_writes_the_payload(tmp_path: Path) -> None:
    save(tmp_path / "m.onnx", numpy_helper.from_array(W, "w"))
    assert ge_import([str(tmp_path / "m.onnx"), "-o", str(tmp_path / "out.mlir")]) == 0
    assert 'graph.payload = "out.safetensors"' in (tmp_path / "out.mlir").read_text()
    module = import_file(tmp_path / "m.onnx").module
    module.attributes["graph.payload"] = StringAttr("out.safetensors")
    np.testing.assert_array_equal(run(Imported(module, open_payload(module, tmp_path))), W)


@pytest.mark.parametrize(
    "name", ["../w.safetensors", "/w.safetensors", "a/w.safetensors", "", ".."]
)
def test_payload_outside_of_the_folder(tmp_path: Path, name: str) -> None:
    save(tmp_path / "m.onnx", numpy_helper.from_array(W, "w"))
    module = import_file(tmp_path / "m.onnx").module
    module.attributes["graph.payload"] = StringAttr(name)
    with pytest.raises(GeError, match="does not name a file in the folder of the module"):
        open_payload(module, tmp_path)


def test_random_payload_is_seeded(tmp_path: Path) -> None:
    save(tmp_path / "m.onnx", external(location="w.bin"))
    module = import_file(tmp_path / "m.onnx").module
    first, again, other = (RandomPayload(module, seed).get("w") for seed in (0, 0, 1))
    assert first is not None
    assert first.shape == (2, 500)
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)
    assert RandomPayload(module).get("missing") is None


# ---- files, all or none --------------------------------------------------------------------------


def failing(_: object) -> None:
    raise GeError("no")


def write_two(first: Path, second: Path) -> None:
    with Outputs() as out:
        out.text(first, "later")
        out.binary(second, failing)


def test_failure_leaves_earlier_files(tmp_path: Path) -> None:
    first = tmp_path / "a.txt"
    first.write_text("earlier")
    with pytest.raises(GeError, match="no"):
        write_two(first, tmp_path / "b.bin")
    assert first.read_text() == "earlier"
    assert os.listdir(tmp_path) == ["a.txt"]


def test_full_disk(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A limit on the size of files stands for the full disk."""
    import resource

    save(tmp_path / "m.onnx", numpy_helper.from_array(W, "w"))
    output = tmp_path / "out.mlir"
    output.write_text("earlier")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        status = ge_import([str(tmp_path / "m.onnx"), "-o", str(output)])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert status == 1
    text = capsys.readouterr().err
    assert text.endswith(f"error: cannot write '{tmp_path / 'out.safetensors'}': File too large\n")
    assert text.count("\n") == 1
    assert output.read_text() == "earlier"
    assert sorted(os.listdir(tmp_path)) == ["m.onnx", "out.mlir"]


def test_links_and_permissions_stay(tmp_path: Path) -> None:
    target, link = tmp_path / "target.txt", tmp_path / "link.txt"
    target.write_text("earlier")
    target.chmod(0o640)
    link.symlink_to(target)
    with Outputs() as out:
        out.text(link, "later")
    assert link.is_symlink()
    assert target.read_text() == "later"
    assert stat.S_IMODE(target.stat().st_mode) == 0o640


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_large_arrays_are_mapped(
    save: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("ge.runtime.data.npz.MAPPED", 64)
    x = np.arange(600, dtype=np.float32).reshape(20, 30)
    given = {"x": x, "by_columns": np.asfortranarray(x), "small": x[:1, :2]}
    save(tmp_path / "x.npz", **given)
    read = read_npz(tmp_path / "x.npz", [*given])
    assert all((read[name] == array).all() for name, array in given.items())
    assert isinstance(read["x"].base, np.memmap) == (save is np.savez)
    read["x"][0, 0] = 7  # the file stays
    assert read_npz(tmp_path / "x.npz", ["x"])["x"][0, 0] == 0


def test_npz_takes_any_name(tmp_path: Path) -> None:
    arrays = {"file": W, "a/b:0": W[:1], "self": W[1:]}
    with Outputs() as out:
        out.npz(tmp_path / "x.npz", arrays)
    stored = np.load(tmp_path / "x.npz")
    assert set(stored.files) == set(arrays)
    np.testing.assert_array_equal(stored["a/b:0"], W[:1])


def test_module_without_weights_has_no_payload(tmp_path: Path) -> None:
    save(tmp_path / "m.onnx", external(location="w.bin"))
    imported = import_file(tmp_path / "m.onnx")
    with Outputs() as out:
        write_module(out, tmp_path / "out.mlir", imported.module, imported.payload)
    assert "graph.payload" not in (tmp_path / "out.mlir").read_text()
    assert sorted(os.listdir(tmp_path)) == ["m.onnx", "out.mlir"]
