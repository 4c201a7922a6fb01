// Products of experts with weights of type Bf16 for many tokens on Hopper: up with the activation, and down.
#include "product_wgmma.cuh"

WARPGROUPS(up, bf16, Bf16, UP)
WARPGROUPS(down, bf16, Bf16, DOWN)
