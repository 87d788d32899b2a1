// What is printed is read back as the same module.
// RUN: ge-opt %s --verify-roundtrip | filecheck %s

// ARGS: unknown option '--unreadable-op'
// RUN: printf 'unreadable.form\n' | not ge-opt --load-plugin=%S/Inputs/unreadable.py --verify-roundtrip 2>&1 | filecheck %s --check-prefix=FORM
// FORM:      error: the custom form of this module cannot be read back: unknown op 'nonsense'
// FORM-NEXT: note: the line is: nonsense
// RUN: printf '"unreadable.loses"() {a = 1 : i32} : () -> ()\n' | not ge-opt --load-plugin=%S/Inputs/unreadable.py --verify-roundtrip 2>&1 | filecheck %s --check-prefix=LOSES
// LOSES:      error: the custom form of this module is read back as another one
// LOSES-NEXT: note: it was: "unreadable.loses"() {a = 1 : i32} : () -> ()
// LOSES-NEXT: note: it became: "unreadable.loses"() : () -> ()

// CHECK: func.func @f(
func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = graph.relu %x : (tensor<4xf32>) -> tensor<4xf32> loc("a node")
  func.return %0 : tensor<4xf32>
}
