// A CUDA driver without a card, for the test of the calls: memory of the device is memory of the
// host, a kernel writes what it was launched with to the address that is its first parameter.
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef struct { uint32_t grid[3], block[3], shared; uint64_t stream; void *attributes; uint32_t count; } config;

int cuInit(unsigned flags) { return flags != 0; }
int cuDriverGetVersion(int *version) { *version = 11030; return 0; }
int cuDeviceGetCount(int *count) { *count = 1; return 0; }
int cuDeviceGet(int *device, int ordinal) { *device = 7; return ordinal == 0 ? 0 : 101; }
int cuDeviceGetName(char *name, int size, int device) { strncpy(name, "Fake GPU", size); return device == 7 ? 0 : 101; }
int cuMemAlloc_v2(uint64_t *at, size_t size) { *at = (uint64_t)calloc(1, size); return size > 1 << 30 ? 2 : 0; }
int cuMemFree_v2(uint64_t at) { free((void *)at); return 0; }
int cuMemAllocHost_v2(void **at, size_t size) { *at = malloc(size); return 0; }
int cuMemFreeHost(void *at) { free(at); return 0; }
int cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t size) { memcpy((void *)to, from, size); return 0; }
int cuMemcpyDtoH_v2(void *to, uint64_t from, size_t size) { memcpy(to, (void *)from, size); return 0; }
int cuStreamSynchronize(uint64_t stream) { return stream != 0; }
int cuEventQuery(uint64_t event) { return event == 5 ? 600 : 0; }
int cuEventElapsedTime(float *ms, uint64_t from, uint64_t to) { *ms = 0.5f * (to - from); return 0; }

int cuModuleLoadDataEx(uint64_t *module, const char *image, unsigned n, int *options, void **values) {
    *module = 11;
    if (!dlopen("libnvidia-ptxjitcompiler.so.1", RTLD_NOW)) return 221; // as the driver loads its compiler
    if (strncmp(image, "bad", 3) != 0) return 0;
    if (n != 2 || options[0] != 5 || options[1] != 6) return 1;
    strncpy(values[0], "ptxas: line 3: bad instruction\n", (size_t)values[1]);
    values[1] = (void *)31;
    return 218;
}

int cuLaunchKernel(uint64_t f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, uint64_t stream, void **each, void **extra) {
    if (extra != 0) return 1;
    uint64_t words[] = {f, gx, gy, gz, bx, by, bz, shared, stream};
    char *out = *(char **)each[0]; // its one parameter is a pointer and eight more bytes
    memcpy(out, words, sizeof words);
    memcpy(out + sizeof words, each[0], 16);
    return 0;
}

int cuLaunchKernelEx(config *c, uint64_t f, void **each, void **extra) {
    if (c->count != 1 || ((uint32_t *)c->attributes)[0] != 6) return 1;
    return cuLaunchKernel(f, c->grid[0], c->grid[1], c->grid[2], c->block[0], c->block[1], c->block[2], c->shared, c->stream, each, extra);
}

int cuGetErrorName(int code, const char **text) { *text = code == 2 ? "CUDA_ERROR_OUT_OF_MEMORY" : "CUDA_ERROR_INVALID_PTX"; return 0; }
int cuGetErrorString(int code, const char **text) { *text = code == 2 ? "out of memory" : "a PTX JIT compilation failed"; return 0; }
