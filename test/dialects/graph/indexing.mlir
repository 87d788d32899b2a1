// RUN: %roundtrip | filecheck %s

// Elements picked and placed by index or condition.

// CHECK-LABEL: func.func @gather(
func.func @gather(%x: tensor<5x?x7xf32>, %i: tensor<2x3xi64>, %s: tensor<i32>, %v: tensor<4x2xi64>) {
  // CHECK-NEXT: %rows = graph.gather %x, %i : (tensor<5x?x7xf32>, tensor<2x3xi64>) -> tensor<2x3x?x7xf32>
  %rows = graph.gather %x, %i : (tensor<5x?x7xf32>, tensor<2x3xi64>) -> tensor<2x3x?x7xf32>
  // CHECK-NEXT: %last = graph.gather %x, %i axis 2 : (tensor<5x?x7xf32>, tensor<2x3xi64>) -> tensor<5x?x2x3xf32>
  %last = graph.gather %x, %i axis -1 : (tensor<5x?x7xf32>, tensor<2x3xi64>) -> tensor<5x?x2x3xf32>
  // CHECK-NEXT: %one = graph.gather %x, %s axis 1 : (tensor<5x?x7xf32>, tensor<i32>) -> tensor<5x7xf32>
  %one = graph.gather %x, %s axis 1 : (tensor<5x?x7xf32>, tensor<i32>) -> tensor<5x7xf32>
  // CHECK-NEXT: %slices = graph.gather_nd %x, %v : (tensor<5x?x7xf32>, tensor<4x2xi64>) -> tensor<4x7xf32>
  %slices = graph.gather_nd %x, %v : (tensor<5x?x7xf32>, tensor<4x2xi64>) -> tensor<4x7xf32>
  func.return
}

// CHECK-LABEL: func.func @gather_elements(
func.func @gather_elements(%x: tensor<3x4xf32>, %i: tensor<2x9xi64>, %d: tensor<2x?xi64>) {
  // CHECK-NEXT: %columns = graph.gather_elements %x, %i axis 1 : (tensor<3x4xf32>, tensor<2x9xi64>) -> tensor<2x9xf32>
  %columns = graph.gather_elements %x, %i axis 1 : (tensor<3x4xf32>, tensor<2x9xi64>) -> tensor<2x9xf32>
  // CHECK-NEXT: %dynamic = graph.gather_elements %x, %d : (tensor<3x4xf32>, tensor<2x?xi64>) -> tensor<2x?xf32>
  %dynamic = graph.gather_elements %x, %d : (tensor<3x4xf32>, tensor<2x?xi64>) -> tensor<2x?xf32>
  func.return
}

// CHECK-LABEL: func.func @gather_nd(
func.func @gather_nd(%x: tensor<2x3x4xi1>, %i: tensor<2x5x1xi64>, %u: tensor<2x?xi64>) {
  // CHECK-NEXT: %batch = graph.gather_nd %x, %i batch_dims 1 : (tensor<2x3x4xi1>, tensor<2x5x1xi64>) -> tensor<2x5x4xi1>
  %batch = graph.gather_nd %x, %i batch_dims 1 : (tensor<2x3x4xi1>, tensor<2x5x1xi64>) -> tensor<2x5x4xi1>
  // CHECK-NEXT: %rank = graph.gather_nd %x, %u : (tensor<2x3x4xi1>, tensor<2x?xi64>) -> tensor<*xi1>
  %rank = graph.gather_nd %x, %u : (tensor<2x3x4xi1>, tensor<2x?xi64>) -> tensor<*xi1>
  func.return
}

// CHECK-LABEL: func.func @scatter(
func.func @scatter(%x: tensor<3x4xf32>, %i: tensor<2x2xi64>, %u: tensor<2x2xf32>, %v: tensor<5x1xi64>, %w: tensor<5x4xf32>) {
  // CHECK-NEXT: %place = graph.scatter_elements %x, %i, %u : (tensor<3x4xf32>, tensor<2x2xi64>, tensor<2x2xf32>) -> tensor<3x4xf32>
  %place = graph.scatter_elements %x, %i, %u : (tensor<3x4xf32>, tensor<2x2xi64>, tensor<2x2xf32>) -> tensor<3x4xf32>
  // CHECK-NEXT: %add = graph.scatter_elements %x, %i, %u axis 1 reduction add : (tensor<3x4xf32>, tensor<2x2xi64>, tensor<2x2xf32>) -> tensor<3x4xf32>
  %add = graph.scatter_elements %x, %i, %u axis 1 reduction add : (tensor<3x4xf32>, tensor<2x2xi64>, tensor<2x2xf32>) -> tensor<3x4xf32>
  // CHECK-NEXT: %rows = graph.scatter_nd %x, %v, %w : (tensor<3x4xf32>, tensor<5x1xi64>, tensor<5x4xf32>) -> tensor<3x4xf32>
  %rows = graph.scatter_nd %x, %v, %w : (tensor<3x4xf32>, tensor<5x1xi64>, tensor<5x4xf32>) -> tensor<3x4xf32>
  // CHECK-NEXT: %max = graph.scatter_nd %x, %v, %w reduction max : (tensor<3x4xf32>, tensor<5x1xi64>, tensor<5x4xf32>) -> tensor<3x4xf32>
  %max = graph.scatter_nd %x, %v, %w reduction max : (tensor<3x4xf32>, tensor<5x1xi64>, tensor<5x4xf32>) -> tensor<3x4xf32>
  func.return
}

// CHECK-LABEL: func.func @tensor_scatter(
func.func @tensor_scatter(%x: tensor<2x4x8x16xf16>, %u: tensor<2x4x1x16xf16>, %i: tensor<2xi64>) {
  // CHECK-NEXT: %front = graph.tensor_scatter %x, %u axis 2 : (tensor<2x4x8x16xf16>, tensor<2x4x1x16xf16>) -> tensor<2x4x8x16xf16>
  %front = graph.tensor_scatter %x, %u : (tensor<2x4x8x16xf16>, tensor<2x4x1x16xf16>) -> tensor<2x4x8x16xf16>
  // CHECK-NEXT: %ring = graph.tensor_scatter %x, %u at %i axis 2 mode circular : (tensor<2x4x8x16xf16>, tensor<2x4x1x16xf16>, tensor<2xi64>) -> tensor<2x4x8x16xf16>
  %ring = graph.tensor_scatter %x, %u at %i axis 2 mode circular : (tensor<2x4x8x16xf16>, tensor<2x4x1x16xf16>, tensor<2xi64>) -> tensor<2x4x8x16xf16>
  func.return
}

// CHECK-LABEL: func.func @conditions(
func.func @conditions(%x: tensor<3x4xf32>, %c: tensor<3xi1>) {
  // CHECK-NEXT: %nonzero = graph.nonzero %x : (tensor<3x4xf32>) -> tensor<2x?xi64>
  %nonzero = graph.nonzero %x : (tensor<3x4xf32>) -> tensor<2x?xi64>
  // CHECK-NEXT: %rows = graph.compress %x, %c axis 0 : (tensor<3x4xf32>, tensor<3xi1>) -> tensor<?x4xf32>
  %rows = graph.compress %x, %c axis 0 : (tensor<3x4xf32>, tensor<3xi1>) -> tensor<?x4xf32>
  // CHECK-NEXT: %elements = graph.compress %x, %c : (tensor<3x4xf32>, tensor<3xi1>) -> tensor<?xf32>
  %elements = graph.compress %x, %c : (tensor<3x4xf32>, tensor<3xi1>) -> tensor<?xf32>
  // CHECK-NEXT: %y, %first, %inverse, %counts = graph.unique %x : (tensor<3x4xf32>) -> (tensor<?xf32>, tensor<?xi64>, tensor<12xi64>, tensor<?xi64>)
  %y, %first, %inverse, %counts = graph.unique %x : (tensor<3x4xf32>) -> (tensor<?xf32>, tensor<?xi64>, tensor<12xi64>, tensor<?xi64>)
  // CHECK-NEXT: %r, %f, %i, %n = graph.unique %x axis 1 sorted false : (tensor<3x4xf32>) -> (tensor<3x?xf32>, tensor<?xi64>, tensor<4xi64>, tensor<?xi64>)
  %r, %f, %i, %n = graph.unique %x axis 1 sorted false : (tensor<3x4xf32>) -> (tensor<3x?xf32>, tensor<?xi64>, tensor<4xi64>, tensor<?xi64>)
  func.return
}

// CHECK-LABEL: func.func @one_hot(
func.func @one_hot(%i: tensor<2x?xi64>, %v: tensor<2xf16>, %d: tensor<i64>) {
  // CHECK-NEXT: %last = graph.one_hot %i, %v depth 5 axis 2 : (tensor<2x?xi64>, tensor<2xf16>) -> tensor<2x?x5xf16>
  %last = graph.one_hot %i, %v depth 5 : (tensor<2x?xi64>, tensor<2xf16>) -> tensor<2x?x5xf16>
  // CHECK-NEXT: %first = graph.one_hot %i, %v depth 5 axis 0 : (tensor<2x?xi64>, tensor<2xf16>) -> tensor<5x2x?xf16>
  %first = graph.one_hot %i, %v depth 5 axis 0 : (tensor<2x?xi64>, tensor<2xf16>) -> tensor<5x2x?xf16>
  // CHECK-NEXT: %given = graph.one_hot %i, %v depth %d axis 2 : (tensor<2x?xi64>, tensor<i64>, tensor<2xf16>) -> tensor<2x?x?xf16>
  %given = graph.one_hot %i, %v depth %d : (tensor<2x?xi64>, tensor<i64>, tensor<2xf16>) -> tensor<2x?x?xf16>
  func.return
}

// CHECK-LABEL: func.func @top_k(
func.func @top_k(%x: tensor<3x?xf32>, %k: tensor<1xi64>) {
  // CHECK-NEXT: %v, %i = graph.top_k %x k 2 axis 1 : (tensor<3x?xf32>) -> (tensor<3x2xf32>, tensor<3x2xi64>)
  %v, %i = graph.top_k %x k 2 : (tensor<3x?xf32>) -> (tensor<3x2xf32>, tensor<3x2xi64>)
  // CHECK-NEXT: %s, %j = graph.top_k %x k 3 axis 0 largest false : (tensor<3x?xf32>) -> (tensor<3x?xf32>, tensor<3x?xi64>)
  %s, %j = graph.top_k %x k 3 axis 0 largest false : (tensor<3x?xf32>) -> (tensor<3x?xf32>, tensor<3x?xi64>)
  // CHECK-NEXT: %w, %l = graph.top_k %x k %k axis 1 : (tensor<3x?xf32>, tensor<1xi64>) -> (tensor<3x?xf32>, tensor<3x?xi64>)
  %w, %l = graph.top_k %x k %k : (tensor<3x?xf32>, tensor<1xi64>) -> (tensor<3x?xf32>, tensor<3x?xi64>)
  func.return
}
