// What a user can get wrong with ge-run ends in one clear line.
// RUN: python %S/Inputs/npz.py %t
// RUN: ge-run %s --inputs %t.good.npz | filecheck %s
// CHECK: y: float32[2, 3] = 1 1 1 1 1 1{{$}}

// RUN: not ge-run %s --inputs %t.missing.npz 2>&1 | filecheck %s --check-prefix=MISSING
// MISSING: error: there is no input 'y'; input 'x' is missing; expected inputs: x: float32[2, 3], n: int64[rows]
// RUN: not ge-run %s --inputs %t.dtype.npz 2>&1 | filecheck %s --check-prefix=DTYPE
// DTYPE: error: input 'x' is float64, not float32; expected inputs
// RUN: not ge-run %s --inputs %t.shape.npz 2>&1 | filecheck %s --check-prefix=SHAPE
// SHAPE: error: input 'x' has shape [2, 2], not float32[2, 3]; expected inputs
// RUN: not ge-run %s --inputs %t.objects.npz 2>&1 | filecheck %s --check-prefix=OBJECTS
// OBJECTS: {{.*}}.objects.npz: error: array 'x' cannot be read
// RUN: not ge-run %s --inputs %t.single.npy 2>&1 | filecheck %s --check-prefix=SINGLE
// SINGLE: error: '{{.*}}.single.npy' holds one array without a name; use np.savez, not np.save
// RUN: not ge-run %s --inputs %t.truncated.npz 2>&1 | filecheck %s --check-prefix=BROKEN
// RUN: not ge-run %s --inputs %t.empty.npz 2>&1 | filecheck %s --check-prefix=BROKEN
// RUN: not ge-run %s --inputs %s 2>&1 | filecheck %s --check-prefix=BROKEN
// BROKEN: error: '{{.*}}' is no .npz file
// RUN: not ge-run %s --inputs %t.damaged.npz 2>&1 | filecheck %s --check-prefix=DAMAGED
// DAMAGED: error: array 'x' cannot be read
// RUN: not ge-run %s --inputs %t.none.npz 2>&1 | filecheck %s --check-prefix=NONE
// NONE: error: cannot open '{{.*}}.none.npz': No such file or directory

// Nothing is computed for a file that cannot be written.
// RUN: not ge-run %s --outputs %t.none/y.npz 2>&1 | filecheck %s --check-prefix=WRITE
// WRITE: error: cannot write '{{.*}}.none/y.npz': No such file or directory
// RUN: not ge-run %s --report %S 2>&1 | filecheck %s --check-prefix=FOLDER
// FOLDER: error: cannot write '{{.*}}': it is a folder

// RUN: not ge-run %s --level graph --timing-only 2>&1 | filecheck %s --check-prefix=LEVEL
// LEVEL: error: time is known at the program level only, not at graph
// RUN: not ge-run %s --timing-only 2>&1 | filecheck %s --check-prefix=DYNAMIC
// DYNAMIC: error: the sizes of 'rows' are not known; give them, as in --dim rows=8{{$}}
// RUN: not ge-run %s --target 911 2>&1 | filecheck %s --check-prefix=TARGET
// TARGET: error: unknown target '911'

func.func @main(
    %x: tensor<2x3xf32> {graph.name = "x"},
    %n: tensor<?xi64> {graph.name = "n", graph.dims = ["rows"]}) -> (
    tensor<2x3xf32> {graph.name = "y"}, tensor<?xi64> {graph.name = "m"}) {
  %one = graph.constant dense<1.0> : tensor<f32>
  %0 = graph.add %x, %one : (tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xf32>
  %1 = graph.neg %n : (tensor<?xi64>) -> tensor<?xi64>
  func.return %0, %1 : tensor<2x3xf32>, tensor<?xi64>
}
