"""Each test begins without graphs of others, and with the same random numbers."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

os.environ["GE_SANITIZE"] = "1"
sys.path.insert(0, str(Path(__file__).parent))
torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    torch.manual_seed(0)
    yield
    torch._dynamo.reset()
