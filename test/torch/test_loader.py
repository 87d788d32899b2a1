"""Batches of torch's DataLoader through a session, as they come."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, Dataset, TensorDataset

import ge

TEXT = """
func.func @main(%x: tensor<?x8xf32> {graph.name = "x", graph.dims = ["n", ""]})
    -> (tensor<?x8xf32> {graph.name = "y"}) {
  %0 = graph.relu %x : (tensor<?x8xf32>) -> tensor<?x8xf32>
  func.return %0 : tensor<?x8xf32>
}
"""
X = torch.randn(10, 8)


class Named(Dataset[Any]):
    def __len__(self) -> int:
        return len(X)

    def __getitem__(self, i: int) -> dict[str, Any]:
        return {"x": X[i].requires_grad_(), "label": i, "name": str(i)}


class Nameless(Named):
    def __getitem__(self, i: int) -> Any:
        return (X[i], i, str(i))


LOADERS: dict[str, Any] = {
    "tensors": lambda: DataLoader(X, batch_size=4),
    "lists of tensors": lambda: DataLoader(TensorDataset(X), batch_size=4),
    "labels": lambda: DataLoader(TensorDataset(X, torch.arange(10)), batch_size=4),
    "names": lambda: DataLoader(Named(), batch_size=4),
    "labels and texts": lambda: DataLoader(Nameless(), batch_size=4),
    "processes": lambda: DataLoader(TensorDataset(X), batch_size=4, num_workers=2),
}


@pytest.mark.parametrize("kind", LOADERS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_loader_verbatim(
    kind: str, dtype: torch.dtype, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(f"{__name__}.X", X.to(dtype))
    path = tmp_path / "m.mlir"
    path.write_text(TEXT.replace("f32", "f32" if dtype == torch.float32 else "bf16"))
    program = ge.compile(str(path))
    session = ge.Session(program.module, program.payload)
    outputs = list(session.run_many(LOADERS[kind]()))
    assert [len(o["y"]) for o in outputs] == [4, 4, 2]
    got = torch.cat([torch.from_numpy(o["y"].astype("float32")) for o in outputs])
    assert torch.equal(got, X.relu().float())
