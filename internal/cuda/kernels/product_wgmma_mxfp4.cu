// Linear layers with weights of type Mxfp4 for many tokens on Hopper.
#include "product_wgmma.cuh"

WARPGROUPS(linear, mxfp4, Mxfp4, LINEAR)
