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
struct uint4 { unsigned x, y, z, w; };
static inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
static inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
static inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
static inline int min(int a, int b) { return a < b ? a : b; }
static inline float __int_as_float(int bits) {
    float value;
    memcpy(&value, &bits, 4);
    return value;
}
static inline int __float_as_int(float value) {
    int bits;
    memcpy(&bits, &value, 4);
    return bits;
}
static inline unsigned __funnelshift_l(unsigned low, unsigned high, int by) {
    return by & 31 ? high << (by & 31) | low >> (32 - (by & 31)) : high;
}
static inline unsigned __funnelshift_r(unsigned low, unsigned high, int by) {
    return by & 31 ? low >> (by & 31) | high << (32 - (by & 31)) : low;
}
static inline unsigned __byte_perm(unsigned x, unsigned y, unsigned which) {
    const unsigned long long both = (unsigned long long)y << 32 | x;
    unsigned found = 0;
    for (int k = 0; k < 4; ++k) found |= (unsigned)(both >> (which >> 4 * k & 7) * 8 & 0xff) << 8 * k;
    return found;
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

// A tensor core's step, c += a · b, 16 × 16 by 16 × 8, of pairs of bfloat16; each lane of a warp holds its share.
struct Share { unsigned a[4], b[2]; };
static Share shares[1024];
static inline float bfloat16(unsigned pair, int second) {
    return __int_as_float(second ? pair & 0xffff0000u : pair << 16);
}
static inline void multiply(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    const int me = threadIdx.x, first = me / 32 * 32, g = me % 32 / 4, t = me % 4;
    shares[me] = {{a[0], a[1], a[2], a[3]}, {b0, b1}};
    __syncwarp();
    for (int i = 0; i < 4; ++i)
        for (int k = 0; k < 16; ++k) {
            const Share &row = shares[first + g * 4 + k % 8 / 2];
            const Share &column = shares[first + (2 * t + i % 2) * 4 + k % 8 / 2];
            c[i] += bfloat16(row.a[i / 2 + k / 8 * 2], k % 2) * bfloat16(column.b[k / 8], k % 2);
        }
    __syncwarp();
}
