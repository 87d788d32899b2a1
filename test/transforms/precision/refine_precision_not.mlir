// RUN: ge-opt %s -p 'refine-precision{data="%S/Inputs/magnitudes.toml"}' --verify-diagnostics --remarks
// RUN: ge-opt %s -p 'refine-precision{data="%S/Inputs/magnitudes.toml"}' | filecheck %s
// RUN: ge-opt %s -p 'refine-precision{data="%S/Inputs/magnitudes.toml" clip=true}' | filecheck %s --check-prefix=CLIP

// What stays f32, and why: constants and values that f16 does not hold, angles, a branch.
func.func @main(%x: tensor<4x4xf32>, %n: tensor<4x4xf32>, %c: tensor<i1>) -> (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>) {
  %w = graph.constant dense<1.0> : tensor<4x4xf32>
  %huge = graph.constant dense<70000.0> : tensor<4x4xf32>
  %tiny = graph.constant dense<1.0e-12> : tensor<f32>
  // expected-remark@+1 {{refine-precision applied: 'fits' in f16}}
  %fits = graph.matmul %x, %w : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  // expected-remark@+1 {{missed: 'large' stays f32: 'large' reaches 3e+04, f16 65504}}
  %large = graph.matmul %fits, %w : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  // expected-remark@+1 {{missed: 'wide' stays f32: 'huge' reaches 7e+04, f16 65504}}
  %wide = graph.matmul %fits, %huge : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  // expected-remark@+1 {{missed: 'guarded' stays f32: 'tiny' reaches 1e-12 at most, and f16 loses digits below 6.1e-05}}
  %guarded = graph.add %fits, %tiny : (tensor<4x4xf32>, tensor<f32>) -> tensor<4x4xf32>
  // expected-remark@+1 {{missed: 'squares' stays f32: nothing is known of how large a result of graph.mul gets}}
  %squares = graph.mul %fits, %fits : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  // expected-remark@+1 {{missed: 'angle' stays f32: it computes the operand of graph.sin, where angles may be large}}
  %angle = graph.matmul %x, %w : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %sine = graph.sin %angle : (tensor<4x4xf32>) -> tensor<4x4xf32>
  // Before the first product nothing is narrow: what is added to the input is not.
  %early = graph.add %n, %w : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %joined = graph.add %early, %sine : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  // expected-remark@+1 {{missed: 'either' stays f32: what is in a branch or loop stays f32}}
  %either = graph.if %c : (tensor<i1>) -> tensor<4x4xf32> {
    graph.yield %fits : tensor<4x4xf32>
  } else {
    graph.yield %joined : tensor<4x4xf32>
  }
  func.return %large, %wide, %guarded, %squares, %either : tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>
}
// CHECK:     %fits = graph.matmul {{.*}} -> tensor<4x4xf16>
// CHECK:     %[[FITS:[0-9]+]] = graph.cast %fits to f32 :
// CHECK:     %large = graph.matmul %[[FITS]], %w : {{.*}} -> tensor<4x4xf32>
// CHECK:     %wide = graph.matmul %[[FITS]], %huge : {{.*}} -> tensor<4x4xf32>
// CHECK:     %guarded = graph.add %[[FITS]], %tiny : {{.*}} -> tensor<4x4xf32>
// CHECK:     %squares = graph.mul %[[FITS]], %[[FITS]] : {{.*}} -> tensor<4x4xf32>
// CHECK:     %angle = graph.matmul %x, %w : {{.*}} -> tensor<4x4xf32>
// CHECK-NOT: f16
// CHECK:     graph.yield %[[FITS]] : tensor<4x4xf32>

// CLIP-DAG: %[[LIMIT:[0-9]+]] = graph.clamp %huge low
// CLIP-DAG: %[[HUGE:[0-9]+]] = graph.cast %[[LIMIT]] to f16 :
// CLIP:     %wide = graph.matmul %fits, %[[HUGE]] : {{.*}} -> tensor<4x4xf16>
