// RUN: ge-opt %s --split-input-file --parsing-diagnostics | filecheck %s

// CHECK: error: the mesh of a module is called @mesh, not @devices
func.func @f(%x: tensor<8xf32> {graph.sharding = #graph.sharding<@devices, [{"dp"}]>}) {
  func.return
}

// -----

// CHECK: error: 'graph.mesh' op the mesh of a module is called @mesh, not @devices
graph.mesh @devices ["dp"=2]
