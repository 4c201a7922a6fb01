// Linear layers with weights of type Bf16 for many tokens on Hopper.
#include "product_wgmma.cuh"

WARPGROUPS(linear, bf16, Bf16, LINEAR)
