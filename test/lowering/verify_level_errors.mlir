// RUN: ge-opt %s --split-input-file --verify-diagnostics --allow-unregistered-dialect -p 'verify-level{level=graph}'
// RUN: not ge-opt %s --split-input-file -p 'verify-level{level=grph}' 2>&1 | filecheck %s --check-prefix=LEVEL

// LEVEL: error: there is no level 'grph'; use graph, fused, tasks, buffers, program

func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{not legal at the graph level: tensor.empty may not stand here}}
  %0 = tensor.empty() : tensor<4xf32>
  func.return %x : tensor<4xf32>
}

// -----

func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{operand #1 does not dominate this use}}
  %0 = graph.add %x, %1 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  // expected-note@+1 {{operand defined here (op in the same block)}}
  %1 = graph.neg %x : (tensor<4xf32>) -> tensor<4xf32>
  func.return %0 : tensor<4xf32>
}

// -----

func.func @main(%c: tensor<i1>, %x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = graph.if %c : (tensor<i1>) -> tensor<4xf32> {
    // expected-error@+1 {{operand #0 does not dominate this use}}
    %1 = graph.neg %2 : (tensor<4xf32>) -> tensor<4xf32>
    graph.yield %1 : tensor<4xf32>
  } else {
    graph.yield %x : tensor<4xf32>
  }
  // expected-note@+1 {{operand defined here (op in a parent region)}}
  %2 = graph.neg %x : (tensor<4xf32>) -> tensor<4xf32>
  func.return %0 : tensor<4xf32>
}

// -----

// A value of itself.
func.func @main() -> tensor<4xf32> {
  // expected-error@+2 {{operand #0 does not dominate this use}}
  // expected-note@+1 {{operand defined here (op in the same block)}}
  %0 = graph.neg %0 : (tensor<4xf32>) -> tensor<4xf32>
  func.return %0 : tensor<4xf32>
}

// -----

// expected-error@+1 {{not legal at the graph level: npu_task.kernel may not stand in a module}}
npu_task.kernel @neg_0 on vector {
^bb0(%0: tensor<4xf32>):
  %1 = graph.neg %0 : (tensor<4xf32>) -> tensor<4xf32>
  npu_task.return %1 : tensor<4xf32>
}
func.func @main() {
  func.return
}

// -----

func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{not legal at the graph level: fused_op.region may not stand here}}
  %0 = fused_op.region(%x) : (tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%a: tensor<4xf32>):
    %1 = graph.neg %a : (tensor<4xf32>) -> tensor<4xf32>
    fused_op.yield %1 : tensor<4xf32>
  }
  func.return %0 : tensor<4xf32>
}

// -----

func.func @main() {
  func.return
}
func.func private @prepare() -> tensor<4xf32> {
  // expected-error@+1 {{not legal at the graph level: tensor.empty may not stand here}}
  %0 = tensor.empty() : tensor<4xf32>
  func.return %0 : tensor<4xf32>
}

// -----

// expected-error@+1 {{not legal at the graph level: @main has no body}}
func.func private @main()

// -----

// expected-error@+1 {{func.func defines a value of type memref<4xf32>}}
func.func @main(%x: memref<4xf32>) {
  func.return
}

// -----

// expected-error@+1 {{@main has several blocks; use graph.if and graph.loop}}
func.func @main() {
  "test.br"() [^bb1] : () -> ()
^bb1:
  func.return
}
