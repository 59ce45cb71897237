// What a CUDA kernel of one block needs to run on a CPU: its threads take turns, each up to its next barrier.
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <ucontext.h>
#include <vector>

#define __device__
#define __global__
#define __shared__
#define __launch_bounds__(...)

struct float4 { float x, y, z, w; };
struct uint2 { unsigned x, y; };
static inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
static inline int min(int a, int b) { return a < b ? a : b; }
static inline float __int_as_float(int bits) {
    float value;
    memcpy(&value, &bits, 4);
    return value;
}
template <class T> static inline T atomicAdd(T *at, T by) {
    const T before = *at;
    *at += by;
    return before;
}
static inline unsigned atomicXor(unsigned *at, unsigned by) {
    const unsigned before = *at;
    *at ^= by;
    return before;
}

static struct { int x; } threadIdx, blockIdx;
alignas(16) float4 shared[16384];

struct Barrier { int waiting = 0, size = 0, passed = 0; };
static std::vector<ucontext_t> fibers;
static std::vector<bool> ended;
static std::vector<Barrier> warps;
static Barrier everyone;
static ucontext_t scheduler;
static int running, left;
alignas(8) static char exchanged[2048][8];

static inline void yield_fiber() {
    const int me = running;
    swapcontext(&fibers[me], &scheduler);
    running = me;
    threadIdx.x = me;
}
static inline void wait_at(Barrier &barrier) {
    const int turn = barrier.passed;
    if (++barrier.waiting == barrier.size) {
        barrier.waiting = 0;
        ++barrier.passed;
        return;
    }
    while (barrier.passed == turn) yield_fiber();
}
static inline void __syncwarp() { wait_at(warps[threadIdx.x / 32]); }
static inline void __syncthreads() { wait_at(everyone); }
template <class T> static inline T __shfl_xor_sync(unsigned, T value, int by) {
    const int me = threadIdx.x;
    memcpy(exchanged[me], &value, sizeof value);
    __syncwarp();
    T other;
    memcpy(&other, exchanged[me ^ by], sizeof other);
    __syncwarp();
    return other;
}
