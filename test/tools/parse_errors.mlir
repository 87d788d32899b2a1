// Each error has the place of what is wrong, and what is good in other parts is still printed.
// RUN: ge-opt %s --split-input-file --verify-diagnostics | filecheck %s
// CHECK:     func.func private @first(
// CHECK-NOT: func.func @
// CHECK:     func.func private @last(

func.func private @first() -> ()

// -----
func.func @f() -> i32 {
  // expected-error@+1 {{use of undefined value %undefined}}
  %0 = arith.addi %undefined, %undefined : i32
  func.return %0 : i32
}
// -----
func.func @f() -> i32 {
  // expected-error@+2 {{use of undefined value %x}}
  // expected-note@+1 {{and of %y}}
  %0 = arith.addi %x, %y : i32
  func.return %0 : i32
}
// -----
// expected-error@+1 {{unknown op 'arith.adi'; did you mean 'arith.andi'?}}
%0 = arith.adi %0, %0 : i32
// -----
// expected-error@+1 {{unknown op 'graph.rellu'; did you mean 'graph.relu'?}}
%0 = graph.rellu %0 : (tensor<1xf32>) -> tensor<1xf32>
// -----
// expected-error@+1 {{unknown op 'graf.relu': there is no dialect 'graf'; did you mean 'graph'?}}
%0 = graf.relu %0 : (tensor<1xf32>) -> tensor<1xf32>
// -----
// expected-error@+1 {{unknown op 'foo.bar': there is no dialect 'foo'}}
"foo.bar"() : () -> ()
// -----
// expected-error@+1 {{unknown op 'relu'}}
relu
// -----
// expected-error@+1 {{'test.op' op has no custom format, write it as "test.op"(...)}}
test.op
// -----
// expected-error@+1 {{unknown type or attribute 'graph.nonsense'}}
"test.op"() : () -> !graph.nonsense
// -----
// expected-error@+1 {{unknown type or attribute 'graph.nonsense'}}
"test.op"() {a = #graph.nonsense} : () -> ()
// -----
// expected-error@+1 {{undefined symbol alias '#alias'}}
"test.op"() {a = #alias} : () -> ()
// -----
// expected-error@+1 {{the literal has shape [2], its type [3]}}
"test.op"() {a = dense<[1, 2]> : tensor<3xi8>} : () -> ()
// -----
// expected-error@+1 {{300000000000 elements are too many for dense<...>: keep them in the payload}}
"test.op"() {a = dense<1> : tensor<300000000000xi8>} : () -> ()
// -----
// expected-error@+1 {{Integer value 300 is out of range for type i8}}
"test.op"() {a = 300 : i8} : () -> ()
// -----
// expected-error@+1 {{'arith.constant' op attribute i32 expected from variable 'T', but got i64}}
%0 = "arith.constant"() {value = 1 : i64} : () -> i32
// -----
// expected-error@+1 {{Operation has 1 results, but was given 2 to bind}}
%0, %1 = "test.op"() : () -> i32
// -----
// expected-note@+1 {{first defined here}}
%0 = "test.op"() : () -> i32
// expected-error@+1 {{SSA value %0 is already defined}}
%0 = "test.op"() : () -> i32
// -----
// expected-note@+1 {{prior use here}}
%0 = "test.op"() : () -> i32
// expected-error@+1 {{value %0 is used with type f32, but is of type i32}}
"test.op"(%0) : (f32) -> ()
// -----
func.func @f() {
  func.return
// expected-error@+1 {{expected an operation}}
}}
// -----
// expected-error@+1 {{Unexpected character: ~}}
~
// -----
// expected-error@+1 {{reference to undefined block ^bb1}}
"test.op"() ({ "test.termop"() [^bb1] : () -> () }) : () -> ()
// -----
// expected-error@+1 {{Expected argument or type}}
func.func @f(
// -----
func.func private @last() -> ()
