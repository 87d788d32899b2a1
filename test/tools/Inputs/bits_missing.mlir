%0 = arith.constant dense<"0x8D0301"> : tensor<10xi1>
