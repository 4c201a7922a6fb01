// Attention for heads of up to 128 elements: see attend.cuh.
#include "attend.cuh"

ATTEND_KERNELS(128, bf16, false)
ATTEND_KERNELS(128, e4m3, true)
