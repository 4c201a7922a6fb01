// Attention for heads of up to 64 elements: see attend.cuh.
#include "attend.cuh"

ATTEND_KERNELS(64, bf16, false)
ATTEND_KERNELS(64, e4m3, true)
