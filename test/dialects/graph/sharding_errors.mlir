// RUN: ge-opt %s --split-input-file --parsing-diagnostics | filecheck %s

// CHECK: error: the mesh of a module is called @mesh, not @devices
func.func @f(%x: tensor<8xf32> {graph.sharding = #graph.sharding<@devices, [{"dp"}]>}) {
  func.return
}

// -----

// CHECK: error: 'graph.mesh' op the mesh of a module is called @mesh, not @devices
graph.mesh @devices ["dp"=2]

// -----

// CHECK: error: 'graph.mesh' op the mesh has no axis; one of one device is ["x"=1]
graph.mesh @mesh []

// -----

// CHECK: error: 'graph.mesh' op device_ids has 3 numbers, and the mesh 4 places, one device at each
graph.mesh @mesh ["dp"=2, "tp"=2], device_ids=[0, 1, 2]

// -----

// CHECK: error: 'graph.mesh' op device_ids has 4, and the 4 devices are 0 to 3
graph.mesh @mesh ["dp"=2, "tp"=2], device_ids=[1, 2, 3, 4]

// -----

// CHECK: error: 'graph.mesh' op device_ids has -1, and the 4 devices are 0 to 3
graph.mesh @mesh ["dp"=4], device_ids=[0, 1, 2, -1]

// -----

// CHECK: error: 'graph.mesh' op device_ids has 1 twice, and no 2: each device is at one place
graph.mesh @mesh ["dp"=4], device_ids=[0, 1, 1, 3]

// -----

// CHECK: error: Expected 'device_ids'
graph.mesh @mesh ["dp"=2], devices=[1, 0]

// -----

// CHECK: error: (1)0 is no part of axis 'tp': both numbers are at least 1
func.func @f(%x: tensor<8xf32> {graph.sharding = #graph.sharding<@mesh, [{"tp":(1)0}]>}) {
  func.return
}

// -----

// CHECK: error: (0)2 is no part of axis 'tp': both numbers are at least 1
func.func @f(%x: tensor<8xf32> {graph.sharding = #graph.sharding<@mesh, [{"tp":(0)2}]>}) {
  func.return
}

// -----

// CHECK: error: string literal expected as the name of an axis
func.func @f(%x: tensor<8xf32> {graph.sharding = #graph.sharding<@mesh, [{tp}]>}) {
  func.return
}
