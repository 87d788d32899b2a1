"""What of PyTorch's front door needs no PyTorch (the rest: `make torch-check`, `test/torch`)."""

import subprocess
import sys
from inspect import getfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import NodeProto, TensorProto, helper

from ge.dialects.support.errors import GeError
from ge.lowering.onnx.importer import import_model
from ge.lowering.onnx.model import STACK_TRACE, Tensors, line_of, user_line

TRACE = (
    '  File "project/net.py", line 8, in forward\n    y = self.norm(self.fc(x))\n'
    "        ^^^^^^^^^^\n"
    '  File "env/site-packages/torch/nn/modules/linear.py", line 134, in forward\n'
    "    return F.linear(input, self.weight, self.bias)\n"
)

WITHOUT_TORCH = """
import sys
sys.modules["torch"] = None  # importing it fails
import ge
assert ge.torch.compile
try:
    ge.torch.compile(None, ())
except ge.GeError as e:
    print(e)
"""


def test_without_pytorch_the_way_to_it_is_told():
    """Also: nothing imports it before something is compiled."""
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("error: ge.torch needs the package torch")
    assert "pip install 'ge-npu[torch]'" in done.stdout


def test_wrong_options_are_told_before():
    import ge

    with pytest.raises(GeError, match="fusion"):
        ge.torch.compile(None, (), fusion="most")


def test_the_line_of_the_user_is_the_innermost_outside_of_pytorch():
    assert user_line(TRACE) == "project/net.py:8: y = self.norm(self.fc(x))"
    inner = TRACE[TRACE.index('  File "env') :]
    assert user_line(inner).endswith(
        "linear.py:134: return F.linear(input, self.weight, self.bias)"
    )
    assert user_line('File "net.py", line 3, in f') == "net.py:3"
    assert user_line("no trace at all") == ""


class Held(Tensors):
    """External data that is in memory."""

    def __init__(self, arrays: dict[str, Any]) -> None:
        super().__init__()
        self.arrays = arrays

    def array(self, proto: TensorProto) -> Any:
        return self.arrays[proto.external_data[0].value]


def test_weights_in_memory_are_not_copied():
    weight = np.ones((32, 32), np.float32)
    proto = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=weight.shape)
    proto.data_location = TensorProto.EXTERNAL
    proto.external_data.add(key="location", value="fc.weight")
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 32])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [4, 32])
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    graph = helper.make_graph([node], "g", [x], [y], [proto])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])
    imported = import_model(model, tensors=Held({"fc.weight": weight}))
    assert imported.payload["w"] is weight


def traced(node: NodeProto) -> NodeProto:
    node.metadata_props.add(key=STACK_TRACE, value=TRACE)
    return node


def test_a_node_that_is_refused_names_its_line():
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [4])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [4])
    nodes = [
        traced(helper.make_node("Nonsense", ["x"], ["a"], "one")),
        helper.make_node("Nonsense", ["x"], ["b"], "two"),
        helper.make_node("Add", ["a", "b"], ["y"]),
    ]
    assert line_of(nodes[0])
    assert not line_of(nodes[1])
    graph = helper.make_graph(nodes, "g", [x], [y])
    with pytest.raises(GeError) as e:
        import_model(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)]))
    assert "'one' (project/net.py:8: y = self.norm(self.fc(x))), 'two'" in e.value.message


def test_ge_is_no_part_of_the_users_program():
    ours = Path(getfile(user_line)).parents[1] / "torch" / "translate.py"
    frame = f'  File "{ours}", line 4, in forward\n    self.model(*args)\n'
    assert user_line(frame) == ""
    assert user_line(TRACE + frame) == user_line(TRACE)
