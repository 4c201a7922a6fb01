// Products of experts with weights of type Mxfp4 for many tokens on Hopper: up with the activation, and down.
#include "product_wgmma.cuh"

WARPGROUPS(up, mxfp4, Mxfp4, UP)
WARPGROUPS(down, mxfp4, Mxfp4, DOWN)
