%0 = arith.constant dense<"0x8D03"> : tensor<10xi1>
%1 = arith.constant dense<"0x05"> : tensor<3xi1>
