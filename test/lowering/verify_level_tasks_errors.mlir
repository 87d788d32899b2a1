// RUN: ge-opt %s --split-input-file --verify-diagnostics -p 'verify-level{level=tasks}'

func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{not legal at the tasks level: graph.neg may not stand here}}
  %0 = graph.neg %x : (tensor<4xf32>) -> tensor<4xf32>
  func.return %0 : tensor<4xf32>
}

// -----

func.func @main(%x: tensor<4x6xf32>) -> tensor<4x2xf32> {
  // expected-error@+1 {{graph.slice is no view here, so it must be the launch of a kernel}}
  %0 = graph.slice %x starts [1] ends [3] axes [1] : (tensor<4x6xf32>) -> tensor<4x2xf32>
  func.return %0 : tensor<4x2xf32>
}

// -----

func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = tensor.empty() : tensor<4xf32>
  // expected-error@+1 {{there is no kernel @neg_0}}
  %1 = npu_task.launch @neg_0 ins(%x : tensor<4xf32>) outs(%0 : tensor<4xf32>) -> tensor<4xf32>
  func.return %1 : tensor<4xf32>
}

// -----

npu_task.kernel @neg_0 on vector {
^bb0(%0: tensor<4xf32>):
  %1 = graph.neg %0 : (tensor<4xf32>) -> tensor<4xf32>
  npu_task.return %1 : tensor<4xf32>
}
func.func @main(%x: tensor<2xf32>) -> tensor<4xf32> {
  %0 = tensor.empty() : tensor<4xf32>
  // expected-error@+1 {{ins differ from the inputs of @neg_0}}
  %1 = npu_task.launch @neg_0 ins(%x : tensor<2xf32>) outs(%0 : tensor<4xf32>) -> tensor<4xf32>
  func.return %1 : tensor<4xf32>
}

// -----

npu_task.kernel @neg_0 on vector {
^bb0(%0: tensor<4xf32>):
  %1 = graph.neg %0 : (tensor<4xf32>) -> tensor<4xf32>
  npu_task.return %1 : tensor<4xf32>
}
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{outs differ from the static results of @neg_0}}
  %1 = npu_task.launch @neg_0 ins(%x : tensor<4xf32>) -> tensor<4xf32>
  func.return %1 : tensor<4xf32>
}

// -----

npu_task.kernel @neg_0 on vector {
^bb0(%0: tensor<4xf32>):
  %1 = graph.neg %0 : (tensor<4xf32>) -> tensor<4xf32>
  npu_task.return %1 : tensor<4xf32>
}
func.func @main(%x: tensor<4xf32>) -> tensor<2xf32> {
  %0 = tensor.empty() : tensor<4xf32>
  // expected-error@+1 {{results differ from the results of @neg_0}}
  %1 = npu_task.launch @neg_0 ins(%x : tensor<4xf32>) outs(%0 : tensor<4xf32>) -> tensor<2xf32>
  func.return %1 : tensor<2xf32>
}

// -----

npu_task.kernel @neg_0 on vector {
^bb0(%0: tensor<4xf32>):
  %1 = graph.neg %0 : (tensor<4xf32>) -> tensor<4xf32>
  npu_task.return %1 : tensor<4xf32>
}
func.func @main(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{an outs operand is no tensor.empty}}
  %1 = npu_task.launch @neg_0 ins(%x : tensor<4xf32>) outs(%y : tensor<4xf32>) -> tensor<4xf32>
  func.return %1 : tensor<4xf32>
}

// -----

npu_task.kernel @neg_0 on vector {
^bb0(%0: tensor<4xf32>):
  %1 = graph.neg %0 : (tensor<4xf32>) -> tensor<4xf32>
  npu_task.return %1 : tensor<4xf32>
}
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = tensor.empty() : tensor<4xf32>
  // expected-error@+1 {{there are no streams yet}}
  %1 = npu_task.launch @neg_0 on 1 ins(%x : tensor<4xf32>) outs(%0 : tensor<4xf32>) -> tensor<4xf32>
  func.return %1 : tensor<4xf32>
}

// -----

npu_task.kernel @if_0 on vector {
^bb0(%0: tensor<i1>, %1: tensor<4xf32>):
  // expected-error@+1 {{graph.if may not stand here}}
  %2 = graph.if %0 : (tensor<i1>) -> tensor<4xf32> {
    graph.yield %1 : tensor<4xf32>
  } else {
    graph.yield %1 : tensor<4xf32>
  }
  npu_task.return %2 : tensor<4xf32>
}
func.func @main() {
  func.return
}

// -----

func.func @main() -> tensor<2x3xf32> {
  // expected-error@+1 {{a constant of tensor<4xf32> is read as tensor<2x3xf32>}}
  %0 = npu_task.constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32> as tensor<2x3xf32>
  func.return %0 : tensor<2x3xf32>
}
