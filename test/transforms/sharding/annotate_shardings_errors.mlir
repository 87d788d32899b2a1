// RUN: ge-opt %s --split-input-file --verify-diagnostics -p annotate-shardings

// expected-error @below {{the mesh dp=2,tp=4 has no axis 'zz', which 'x' states (dimension 0)}}
func.func @main(%x: tensor<8x16xf32> {graph.name = "x", graph.sharding = #graph.sharding<@mesh, [{"zz"}, {}]>}) {
  func.return
}
graph.mesh @mesh ["dp"=2, "tp"=4]

// -----

// expected-error @below {{'x' has axis 'tp' twice: dimension 0 and dimension 1}}
func.func @main(%x: tensor<8x16xf32> {graph.name = "x", graph.sharding = #graph.sharding<@mesh, [{"tp"}, {"tp":(2)2}]>}) {
  func.return
}
graph.mesh @mesh ["dp"=2, "tp"=4]

// -----

// expected-error @below {{'x' has axis 'tp' twice: dimension 0 and replicated}}
func.func @main(%x: tensor<8x16xf32> {graph.name = "x", graph.sharding = #graph.sharding<@mesh, [{"tp"}, {}], replicated={"tp":(1)2}>}) {
  func.return
}
graph.mesh @mesh ["dp"=2, "tp"=4]

// -----

// expected-error @below {{'x' has 2 dimensions ([8, 16]), and its sharding has 1; write {} for a dimension that is not cut}}
func.func @main(%x: tensor<8x16xf32> {graph.name = "x", graph.sharding = #graph.sharding<@mesh, [{"tp"}]>}) {
  func.return
}
graph.mesh @mesh ["dp"=2, "tp"=4]

// -----

// expected-error @below {{'x' (dimension 0): (2)4 is no part of axis 'tp' of 4 devices}}
func.func @main(%x: tensor<8x16xf32> {graph.name = "x", graph.sharding = #graph.sharding<@mesh, [{"tp":(2)4}, {}]>}) {
  func.return
}
graph.mesh @mesh ["dp"=2, "tp"=4]

// -----

// expected-error @below {{dimension 0 of 'x' has 7 elements, and 'dp' (2 devices) would cut it into parts of unequal size, 1 of 4, 1 of 3; cut it over 1 or 7 devices, or have it padded with --pad}}
func.func @main(%x: tensor<7x16xf32> {graph.name = "x", graph.sharding = #graph.sharding<@mesh, [{"dp"}, {}]>}) {
  func.return
}
graph.mesh @mesh ["dp"=2, "tp"=4]

// -----

// expected-error @below {{dimension 0 of 'y' has 4 elements, and 'dp', 'tp' (2 x 4 = 8 devices) would cut it into parts of unequal size, 4 of 1, 4 of 0}}
func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32> {graph.name = "y", graph.sharding = #graph.sharding<@mesh, [{"dp", "tp"}]>}) {
  func.return %x : tensor<4xf32>
}
graph.mesh @mesh ["dp"=2, "tp"=4]

// -----

// expected-error @below {{dimension 0 of 'x' is cut along 'dp', and its size is not known; fix its size with --dim or --shape}}
func.func @main(%x: tensor<?xf32> {graph.name = "x", graph.sharding = #graph.sharding<@mesh, [{"dp"}]>}) {
  func.return
}
graph.mesh @mesh ["dp"=2, "tp"=4]

// -----

// A weight is of the border, another value is not.

graph.mesh @mesh ["dp"=2, "tp"=4]
func.func @main(%x: tensor<7xf32>) -> tensor<7xf32> {
  %w = graph.constant #graph.weight<"w"> : tensor<7xf32>
  %0 = graph.add %x, %w : (tensor<7xf32>, tensor<7xf32>) -> tensor<7xf32>
  %1 = graph.shard %0 sharding <@mesh, [{"tp"}]> : (tensor<7xf32>) -> tensor<7xf32>
  // expected-error @below {{dimension 0 of 'w' has 7 elements}}
  %2 = graph.shard %w sharding <@mesh, [{"tp"}]> : (tensor<7xf32>) -> tensor<7xf32>
  func.return %1 : tensor<7xf32>
}

// -----

// expected-error @below {{'x' has a sharding, and the module no mesh; write graph.mesh @mesh ["dp"=2, "tp"=4] before the functions, or give --mesh}}
func.func @main(%x: tensor<8xf32> {graph.name = "x", graph.sharding = #graph.sharding<@mesh, [{"dp"}]>}) {
  func.return
}

// -----

// expected-warning @below {{nothing says how values are cut: all 8 devices compute the same; give --shard rules.json, or --shard auto to search}}
func.func @main(%x: tensor<8xf32> {graph.name = "x"}) {
  func.return
}
graph.mesh @mesh ["dp"=2, "tp"=4]

// -----

// A value that is stated to be whole is stated, and one device has nothing to share.

func.func @main(%x: tensor<8xf32> {graph.name = "x", graph.sharding = #graph.sharding<@mesh, [{}]>}) {
  func.return
}
graph.mesh @mesh ["dp"=2, "tp"=4]

// -----

func.func @main(%x: tensor<8xf32> {graph.name = "x"}) {
  func.return
}
graph.mesh @mesh ["tp"=1]

// -----

// expected-error @below {{'x' has 1 dimensions ([8]), and its sharding has 2; drop the last}}
func.func @main(%x: tensor<8xf32> {graph.name = "x", graph.sharding = #graph.sharding<@mesh, [{"tp"}, {}]>}) {
  func.return
}
graph.mesh @mesh ["tp"=2]

// -----

// What crosses the border is whole arrays: terms of a sum would be added as often as there are devices.

// expected-error @below {{'x' is to be terms of a sum along 'tp', as only values inside are; inputs and outputs are whole arrays or parts of them: drop unreduced}}
func.func @main(%x: tensor<8xf32> {graph.name = "x", graph.sharding = #graph.sharding<@mesh, [{}], unreduced={"tp"}>}) {
  func.return
}
graph.mesh @mesh ["tp"=2]

// -----

// expected-error @below {{'y' is to be terms of a max along 'tp', as only values inside are}}
func.func @main(%x: tensor<8xf32> {graph.name = "x"}) -> (tensor<8xf32> {graph.name = "y", graph.sharding = #graph.sharding<@mesh, [{}], unreduced<max>={"tp"}>}) {
  func.return %x : tensor<8xf32>
}
graph.mesh @mesh ["tp"=2]
