// Attention for heads of up to 256 elements: see attend.cuh.
#include "attend.cuh"

ATTEND_KERNELS(256, bf16, false)
ATTEND_KERNELS(256, e4m3, true)
