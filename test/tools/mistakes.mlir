// Where a mistake is, what is meant, and where the other half of a contradiction stands.
// RUN: ge-opt %s --split-input-file --verify-diagnostics

// expected-note@+1 {{first defined here}}
func.func @redefined(%x: i32) -> i32 {
  // expected-error@+1 {{SSA value %x is already defined}}
  %x = arith.addi %x, %x : i32
  func.return %x : i32
}

// -----

func.func @redefined(%x: i32) -> i32 {
  // In a comment %0 = no definition, and in the string "%0 = " neither.
  // expected-note@+1 {{first defined here}}
  %0, %1 = "test.op"(%x) {a = "%0 = "} : (i32) -> (i32, i32)
  // expected-error@+1 {{SSA value %0 is already defined}}
  %0 = arith.addi %x, %1 : i32
  func.return %0 : i32
}

// -----

// expected-error@+2 {{SSA value %x is already defined}}
// expected-note@+1 {{first defined here}}
func.func @arguments(%x: i32, %x: i32) -> () {
  func.return
}

// -----

// expected-note@+1 {{prior use here}}
func.func @used(%x: i32) -> () {
  // expected-error@+1 {{value %x is used with type i64, but is of type i32}}
  %0 = arith.addi %x, %x : i64
  func.return
}

// -----

func.func @used_before() -> () {
  // expected-note@+1 {{prior use here}}
  "test.op"(%late) : (i32) -> ()
  // expected-error@+1 {{Result %late is defined with type i64, but used with type i32}}
  %late = arith.constant 1 : i64
  func.return
}

// -----

func.func @undefined(%value: i32) -> i32 {
  // expected-error@+1 {{use of undefined value %vlaue; did you mean '%value'?}}
  %0 = arith.addi %vlaue, %value : i32
  func.return %0 : i32
}

// -----

// expected-note@+1 {{this '{' is not closed}}
func.func @open() -> () {
  func.return

func.func @next() -> () {
  func.return
// expected-error@+1 {{the text ends where an operation or '}' is expected}}
}

// -----

// expected-note@+1 {{this '{' is not closed}}
func.func @open_within(%c: i1) -> () {
  // expected-note@+1 {{or this one, by the blanks before its '}'}}
  scf.if %c {
    "test.op"() : () -> ()
  func.return
// expected-error@+1 {{the text ends where an operation or '}' is expected}}
}

// -----

// expected-note@+1 {{this '[' is not closed}}
"test.op"() {a = [
// expected-error@+1 {{attribute expected}}
  1, }

// -----

func.func @blocks() -> () {
  cf.br ^a
// expected-note@+1 {{first defined here}}
^a:
  cf.br ^a
// expected-error@+1 {{redefinition of block ^a}}
^a:
  func.return
}

// -----

func.func @blocks(%c: i1) -> () {
  // expected-error@+2 {{reference to undefined block ^no}}
  // expected-note@+1 {{and to ^none}}
  cf.cond_br %c, ^no, ^none
}

// -----

func.func @operand_types(%x: i32) -> () {
  // expected-error@+1 {{expected 2 operand types, as there are operands, got 1}}
  "test.op"(%x, %x) : (i32) -> ()
  func.return
}

// -----

// expected-error@+1 {{unknown type 'f33'; did you mean 'f32'?}}
func.func @types(%x: tensor<4xf33>) -> ()

// -----

// expected-error@+1 {{unknown type 'tenser'; did you mean 'tensor'?}}
func.func @types(%x: tenser<4xf32>) -> ()

// -----

func.func @types(%x: i32) -> () {
  // expected-error@+1 {{type expected}}
  %0 = arith.addi %x, %x :
  func.return
}

// -----

// expected-error@+1 {{unknown type or attribute 'graph.wieght'; did you mean 'graph.weight'?}}
%0 = graph.constant #graph.wieght<"w"> : tensor<4xf32>

// -----

// expected-error@+2 {{Duplicate key 'a' in dictionary attribute}}
// expected-note@+1 {{first given here}}
"test.op"() {a = 1, b = [1, 2], a = 2} : () -> ()

// -----

// expected-error@+1 {{the literal has shape [2], its type [3]}}
"test.op"() {a = dense<[1, 2]> : tensor<3xi8>} : () -> ()

// -----

// expected-error@+1 {{expected an integer element, got 1.5}}
"test.op"() {a = dense<[1, 1.5]> : tensor<2xi8>} : () -> ()

// -----

// expected-error@+1 {{unknown location 'nowhere', expected unknown, "file":line:column}}
"test.op"() : () -> () loc(nowhere)

// -----

// expected-error@+1 {{expected the number of a line in a location}}
"test.op"() : () -> () loc("a":x:1)

// -----

// expected-error@+1 {{expected the number of a column in a location}}
"test.op"() : () -> () loc("a":1:)

// -----

// expected-note@+1 {{first defined here}}
func.func private @twice() -> ()
// expected-error@+1 {{redefinition of symbol @twice}}
func.func private @twice() -> ()
