// RUN: ge-opt %s --split-input-file --parsing-diagnostics | filecheck %s

func.func @f(%c: tensor<2xi1>) {
  // CHECK: the condition must be one i1, not tensor<2xi1>
  graph.if %c : (tensor<2xi1>) -> () {
    graph.yield
  } else {
    graph.yield
  }
  return
}

// -----

func.func @f(%c: tensor<i1>, %x: tensor<2xf32>) {
  // CHECK: the branches yield 1 and 0 values
  %y = graph.if %c : (tensor<i1>) -> tensor<2xf32> {
    graph.yield %x : tensor<2xf32>
  } else {
    graph.yield
  }
  return
}

// -----

func.func @f(%c: tensor<i1>, %x: tensor<2xf32>, %y: tensor<2xi64>) {
  // CHECK: result 0: element types must agree, but are tensor<2xf32> and tensor<2xi64>
  %z = graph.if %c : (tensor<i1>) -> tensor<2xf32> {
    graph.yield %x : tensor<2xf32>
  } else {
    graph.yield %y : tensor<2xi64>
  }
  return
}

// -----

// A value of two ranks is unranked, which ops that need a rank refuse.
func.func @f(%c: tensor<i1>, %x: tensor<2xf32>, %y: tensor<2x2xf32>) {
  %z = graph.if %c : (tensor<i1>) -> tensor<*xf32> {
    graph.yield %x : tensor<2xf32>
  } else {
    graph.yield %y : tensor<2x2xf32>
  }
  // CHECK: error: 'graph.shape_of' op operand 'input': expected a ranked tensor of elements that ge has, not tensor<*xf32>
  %s = graph.shape_of %z : (tensor<*xf32>) -> tensor<?xi64>
  return
}

// -----

func.func @f(%c: tensor<i1>, %x: tensor<2xf32>) {
  // CHECK: result 0 has type tensor<3xf32>, but tensor<2xf32> follows from the operands
  %z = graph.if %c : (tensor<i1>) -> tensor<3xf32> {
    graph.yield %x : tensor<2xf32>
  } else {
    graph.yield %x : tensor<2xf32>
  }
  return
}

// -----

func.func @f(%c: tensor<i1>) {
  // CHECK: the first branch must end in graph.yield
  "graph.if"(%c) ({
    fused_op.yield %c : tensor<i1>
  }, {
    graph.yield
  }) : (tensor<i1>) -> ()
  return
}

// -----

func.func @f(%c: tensor<i1>) {
  // CHECK: a branch has no arguments; it sees the values around it
  "graph.if"(%c) ({
  ^bb0(%x: tensor<f32>):
    graph.yield
  }, {
    graph.yield
  }) : (tensor<i1>) -> ()
  return
}

// -----

func.func @f() {
  // CHECK: 'graph.yield' expects parent op to be one of 'graph.if', 'graph.case', 'graph.loop'
  graph.yield
}

// -----

func.func @f(%n: tensor<2xi64>) {
  // CHECK: the trip count must be one i64, not tensor<2xi64>
  graph.loop (%i, %go) trip %n : tensor<2xi64> -> () {
    graph.yield %go : tensor<i1>
  }
  return
}

// -----

func.func @f(%n: tensor<i64>) {
  // CHECK: error: 'graph.loop' op operand 'condition': expected a ranked tensor of truth values (i1), not tensor<i64>
  graph.loop (%i, %go) while %n : tensor<i64> -> () {
    graph.yield %go : tensor<i1>
  }
  return
}

// -----

func.func @f() {
  // CHECK: the body needs 2 arguments (iteration number, condition, carried values), but has 1{{$}}
  "graph.loop"() <{operandSegmentSizes = array<i32: 0, 0, 0>}> ({
  ^bb0(%i: tensor<i64>):
    %go = graph.constant dense<true> : tensor<i1>
    graph.yield %go : tensor<i1>
  }) : () -> ()
  return
}

// -----

func.func @f(%x: tensor<2xf32>) {
  // CHECK: argument 2 is tensor<3xf32>, but gets tensor<2xf32>
  %y = graph.loop (%i, %go) carry (%s : tensor<3xf32> = %x : tensor<2xf32>) -> (tensor<2xf32>) {
    graph.yield %go, %x : tensor<i1>, tensor<2xf32>
  }
  return
}

// -----

func.func @f(%x: tensor<2xf32>, %z: tensor<3xf32>) {
  // CHECK: argument 2 is tensor<2xf32>, but gets tensor<3xf32>
  %y = graph.loop (%i, %go) carry (%s = %x : tensor<2xf32>) -> (tensor<?xf32>) {
    graph.yield %go, %z : tensor<i1>, tensor<3xf32>
  }
  return
}

// -----

func.func @f(%x: tensor<2xf32>) {
  // CHECK: the body must yield a condition and 1 carried values, not 1{{$}}
  %y = graph.loop (%i, %go) carry (%s = %x : tensor<2xf32>) -> (tensor<2xf32>) {
    graph.yield %go : tensor<i1>
  }
  return
}

// -----

func.func @f(%x: tensor<2xf32>) {
  // CHECK: the condition that the body yields must be one i1, not tensor<2xf32>
  graph.loop (%i, %go) -> () {
    graph.yield %x : tensor<2xf32>
  }
  return
}

// -----

func.func @f(%x: tensor<2xf32>) {
  // CHECK: expected 1 results, got 0{{$}}
  graph.loop (%i, %go) carry (%s = %x : tensor<2xf32>) -> () {
    graph.yield %go, %s : tensor<i1>, tensor<2xf32>
  }
  return
}

// -----

func.func @f(%x: tensor<2xf32>) {
  // CHECK: result 1 has type tensor<4x2xf32>, but tensor<3x2xf32> follows from the operands
  %n = graph.constant dense<3> : tensor<i64>
  %y, %ys = graph.loop (%i, %go) trip %n : tensor<i64> carry (%s = %x : tensor<2xf32>) -> (tensor<2xf32>, tensor<4x2xf32>) {
    graph.yield %go, %s, %s : tensor<i1>, tensor<2xf32>, tensor<2xf32>
  }
  return
}

// -----

func.func @f(%i: tensor<i1>, %x: tensor<2xf32>) {
  // CHECK: error: 'graph.case' op operand 'index': expected a ranked tensor of i64, not tensor<i1>
  %y = graph.case %i : (tensor<i1>) -> tensor<2xf32> {
    graph.yield %x : tensor<2xf32>
  }
  return
}

// -----

func.func @f(%i: tensor<i64>, %x: tensor<2xf32>) {
  // CHECK: the branches yield 1 and 0 values
  %y = graph.case %i : (tensor<i64>) -> tensor<2xf32> {
    graph.yield %x : tensor<2xf32>
  } {
    graph.yield %x : tensor<2xf32>
  } {
    graph.yield
  }
  return
}

// -----

func.func @f(%x: tensor<?xf32>) {
  // CHECK: row 1 has 2 sizes for 1 inputs
  %i = graph.map_index %x axes [0] table [array<i64: 1>, array<i64: 1, 2>] : (tensor<?xf32>) -> tensor<i64>
  return
}

// -----

func.func @f(%x: tensor<?xf32>) {
  // CHECK: the table has [2] twice
  %i = graph.map_index %x axes [0] table [array<i64: 2>, array<i64: 2>] : (tensor<?xf32>) -> tensor<i64>
  return
}

// -----

func.func @f(%x: tensor<?xf32>) {
  // CHECK: axis 1 is none of tensor<?xf32>, which has 1{{$}}
  %i = graph.map_index %x axes [1] table [array<i64: 2>] : (tensor<?xf32>) -> tensor<i64>
  return
}

// -----

func.func @f(%x: tensor<?x4xf32>) {
  // CHECK: tensor<?x4xf32> has no shape [2, 5]
  %y = graph.assume_shape %x shape [2, 5] : (tensor<?x4xf32>) -> tensor<2x5xf32>
  return
}

// -----

func.func @f(%x: tensor<2xf32>, %c: tensor<2xi1>) {
  // CHECK: the condition must be one i1, not tensor<2xi1>
  %y = graph.assert %x, %c, "why" : (tensor<2xf32>, tensor<2xi1>) -> tensor<2xf32>
  return
}
