// RUN: ge-opt %s --split-input-file | filecheck %s

// The device at each place stands behind the axes; where they are in order, nothing does.

// CHECK: graph.mesh @mesh ["dp"=2, "tp"=2], device_ids=[0, 2, 1, 3]{{$}}
graph.mesh @mesh ["dp"=2, "tp"=2], device_ids=[0, 2, 1, 3]

// -----

// CHECK: graph.mesh @mesh ["dp"=2, "tp"=2]{{$}}
graph.mesh @mesh ["dp"=2, "tp"=2], device_ids=[0, 1, 2, 3]

// -----

// Of a pipeline they are those of one microbatch.

// CHECK: graph.mesh @mesh ["microbatch"=8, "pp"=2], device_ids=[1, 0] pipeline "pp"{{$}}
graph.mesh @mesh ["microbatch"=8, "pp"=2], device_ids=[1, 0] pipeline "pp"

// -----

// CHECK: graph.mesh @mesh ["a"=3], device_ids=[2, 0, 1]{{$}}
"graph.mesh"() <{sym_name = "mesh", mesh = #graph.axes_of_mesh<["a"=3], device_ids=[2, 0, 1]>}> : () -> ()
