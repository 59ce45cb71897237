// The kernel that onelaunch.py describes and compiles; it defines the capitalised constants.
typedef unsigned int word;

constexpr int LANES = 32, THREADS = LANES * WARPS;
constexpr int TILE = 64;          // rows that a warp works on at a time
constexpr int PITCH = TILE + 4;   // of a feature in a tile: neighbours start in different banks
constexpr int CHUNK = 32;         // neurons that the 4 × 8 lanes cover with 8 each
constexpr int OUTER_ROWS = 4;     // a lane's share of a layer's gradient: every 8th row, every 4th column
constexpr int ROW_GROUPS = CHUNK / OUTER_ROWS;
// Inputs: DENSE ones, which lie in a tile as they are, then HOT ones, which are 0 or 1: a bit each, ROW_WORDS words a
// row. They are worked on 16 at a time (a slice).
constexpr int INPUTS = DENSE + HOT;
constexpr int WORDS = (HOT + 31) / 32, ROW_WORDS = (WORDS + 3) / 4 * 4, SLICES = (HOT + 15) / 16;

__device__ constexpr int WIDTH[] = {DENSE, WIDTHS};     // dense inputs, hidden layers 1 to DEPTH, the logit
__device__ constexpr int inputs_of(int l) { return l == 1 ? INPUTS : WIDTH[l - 1]; }
__device__ constexpr int chunks(int l) { return (WIDTH[l] + CHUNK - 1) / CHUNK; }
__device__ constexpr int wide(int l) { return l == 0 ? DENSE_PADDED : CHUNK * chunks(l); }
__device__ constexpr int pitch(int l) { return wide(l) + 4; }
__device__ constexpr int widest() {
    int found = 0;
    for (int l = 1; l <= DEPTH; ++l) found = wide(l) > found ? wide(l) : found;
    return found;
}
// What the layers before l take, of which each takes size(i).
template <class Size> __device__ constexpr int before(int l, Size size, int first = 1) {
    int at = 0;
    for (int i = first; i < l; ++i) at += size(i);
    return at;
}
// Where layer l's matrix and bias begin among a network's packed numbers.
__device__ constexpr int matrix_at(int l) { return before(l, [](int i) { return WIDTH[i] * (inputs_of(i) + 1); }); }
__device__ constexpr int bias_at(int l) { return matrix_at(l) + WIDTH[l] * inputs_of(l); }
constexpr int NUMBERS = matrix_at(DEPTH + 2);
// Where they begin in a warp's gradient, which leaves out the hot inputs.
__device__ constexpr int slot_at(int l) { return before(l, [](int i) { return WIDTH[i] * (WIDTH[i - 1] + 1); }); }
// Shared memory, in floats: the network, then one region per warp, then a few words for all. The network: per hidden
// layer the matrix by inputs `[in × pitch]` (forward), the bias, and by outputs `[out × pitch of the layer below]`
// (backward, not for layer 1); the output's weights and bias; the hot inputs' weights in three parts.
__device__ constexpr int by_inputs_at(int l) {
    return before(l, [](int i) { return pitch(i) * (WIDTH[i - 1] + 1) + (i > 1 ? WIDTH[i] * pitch(i - 1) : 0); });
}
__device__ constexpr int shared_bias_at(int l) { return by_inputs_at(l) + pitch(l) * WIDTH[l - 1]; }
__device__ constexpr int by_outputs_at(int l) { return shared_bias_at(l) + pitch(l); }
constexpr int OUTPUT_AT = by_inputs_at(DEPTH + 1);       // w, then b
constexpr int OUTPUT_BIAS_AT = OUTPUT_AT + wide(DEPTH);
constexpr int HOT_AT = OUTPUT_AT + pitch(DEPTH);
constexpr int HOT_NUMBERS = 32 * WORDS * wide(1);
constexpr int REGIONS_AT = HOT_AT + HOT_NUMBERS / 2 * 3;
// A warp's region: its tile's dense inputs, its hidden layers but the last, and the derivatives; at the end of a batch
// its gradient.
__device__ constexpr int layer_at(int l) { return before(l, [](int i) { return PITCH * wide(i); }, 0); }
constexpr int DELTA_AT = layer_at(DEPTH);
__device__ constexpr int most(int a, int b) { return a > b ? a : b; }
constexpr int TILE_NUMBERS = DELTA_AT + PITCH * widest(), SLOTS = (slot_at(DEPTH + 2) + 3) / 4 * 4;
constexpr int PARTS = HOT ? TILE * wide(1) / 2 * 3 : 0;  // the first layer's derivatives, in three parts
constexpr int REGION = most(most(TILE_NUMBERS, SLOTS), PARTS);
constexpr int WORDS_AT = REGIONS_AT + WARPS * REGION;    // 8 bytes per warp, and 4 words
static_assert(4 * (WORDS_AT + 2 * WARPS + 4) == SHARED_BYTES, "onelaunch.py lays shared memory out differently");
// body(i, j, …) for all i < n, j < the next count, …, unrolled: what they index stays in registers.
template <int n, int... more, class Body, class... At> __device__ inline void each(Body body, At... at) {
#pragma unroll
    for (int i = 0; i < n; ++i)
        if constexpr (sizeof...(more) > 0) each<more...>(body, at..., i);
        else body(at..., i);
}

struct Work {
    const float *X, *X_val, *people, *starts;
    const word *bits, *bits_val, *bits_people;
    const word *y, *y_val;
    const int *flips, *flip_ends, *seed_of, *orders;
    float *weights, *losses, *logits, *moments, *hot;
    int *best_epochs, *epochs;
    word *labels;
    int *control;                     // the next network to take, those finished, whether to stop
    double learning_rate;
    int networks, n, n_val, n_people, batch, patience, max_epochs;
};
// Every lane holds 8 neurons × 8 rows of a layer: neurons first_neuron + {0..3, 16..19}, rows
// first_row + {0..3, 32..35}. Lanes alternate so that half a warp reads 128 bytes at a time.
__device__ inline int lane_of() { return threadIdx.x % LANES; }
__device__ inline int first_neuron() { return 4 * ((lane_of() & 1) | (lane_of() >> 4 << 1)); }
__device__ inline int first_row() { return 4 * (lane_of() >> 1 & 7); }
__device__ inline int neuron(int i) { return first_neuron() + i % 4 + (i / 4) * 16; }
__device__ inline int row(int s) { return first_row() + s % 4 + (s / 4) * 32; }
__device__ inline float over_neurons(float v) {
    v += __shfl_xor_sync(~0u, v, 1);
    return v + __shfl_xor_sync(~0u, v, 16);
}
__device__ inline float over_rows(float v) {
    v += __shfl_xor_sync(~0u, v, 2);
    v += __shfl_xor_sync(~0u, v, 4);
    return v + __shfl_xor_sync(~0u, v, 8);
}

__device__ inline float4 &quad(float *p) { return *reinterpret_cast<float4 *>(p); }
__device__ inline const float4 &quad(const float *p) { return *reinterpret_cast<const float4 *>(p); }
__device__ inline void spread(float (&to)[4], float4 v) {
    to[0] = v.x, to[1] = v.y, to[2] = v.z, to[3] = v.w;
}
__device__ inline float4 gathered(const float *v) { return make_float4(v[0], v[1], v[2], v[3]); }
__device__ inline float sigmoid(float z) { return 1.0f / (1.0f + expf(-z)); }
__device__ inline float act(float z) {
    return ACTIVATION == 0 ? (z < 0.0f ? 0.0f : z) : ACTIVATION == 1 ? tanhf(z) : sigmoid(z);
}
__device__ inline float slope(float d, float h) {
    return ACTIVATION == 0 ? (h > 0.0f ? d : 0.0f) : ACTIVATION == 1 ? d * (1.0f - h * h) : d * (1.0f - h) * h;
}
// z += matrix · layer, the lane's 8 × 8 part; matrix is [depth × wpitch], layer [depth × PITCH].
template <int depth, int wpitch> __device__ inline void product(float (&z)[8][8], float *matrix, float *layer) {
    matrix += first_neuron();
    layer += first_row();
#pragma unroll 4
    for (int k = 0; k < depth; ++k) {
        float w[2][4], h[2][4];
        spread(w[0], quad(matrix + k * wpitch));
        spread(w[1], quad(matrix + k * wpitch + 16));
        spread(h[0], quad(layer + k * PITCH));
        spread(h[1], quad(layer + k * PITCH + 32));
        each<8, 8>([&](int i, int s) { z[i][s] = fmaf(w[i / 4][i % 4], h[s / 4][s % 4], z[i][s]); });
    }
}

__device__ inline void put(float *layer, float (&z)[8][8]) {
    each<8, 2>([&](int i, int half) {
        quad(layer + neuron(i) * PITCH + first_row() + 32 * half) = gathered(z[i] + 4 * half);
    });
}
// A lane's share of a layer's gradient: OUTER_ROWS rows of each chunk, and columns(l) columns. Where all of it is small
// it stays in registers over all tiles of a batch; else BLOCK columns at a time come from memory of the thread's own.
constexpr int BLOCK = 8;
constexpr bool SMALL = DENSE <= 64 && widest() == CHUNK;
__device__ constexpr int columns(int l) { return (WIDTH[l - 1] + 3) / 4; }
__device__ constexpr int block(int l) { return SMALL ? columns(l) : BLOCK; }
__device__ constexpr int stored(int l) { return columns(l) ? (columns(l) + block(l) - 1) / block(l) * block(l) : 0; }
__device__ constexpr int share_at(int l) { return before(l, [](int i) { return chunks(i) * OUTER_ROWS * stored(i); }); }
__device__ constexpr int bias_share_at(int l) { return before(l, [](int i) { return chunks(i) * 8; }); }

struct Gradient {
    float matrix[share_at(DEPTH + 1) + 1], bias[bias_share_at(DEPTH + 1)], output[8 * chunks(DEPTH)], output_bias;
};
// Lane by lane, rows alternate before columns do, so that half a warp reads 128 bytes at a time.
__device__ inline int outer_row() { return (lane_of() & 1) | (lane_of() >> 2 & 1) << 1 | lane_of() >> 4 << 2; }
__device__ inline int outer_column() { return (lane_of() >> 1 & 1) | (lane_of() >> 3 & 1) << 1; }
// gradient[l] += delta · layer l-1, summed over the tile's rows: a chunk's rows and the columns from `first` on.
template <int l> __device__ inline void outer_block(Gradient &gradient, float *region, int chunk, int first) {
    float *delta = region + DELTA_AT + (chunk * CHUNK + outer_row()) * PITCH;
    float *layer = region + layer_at(l - 1) + (outer_column() + 4 * first) * PITCH;
    float *sums = gradient.matrix + share_at(l) + chunk * OUTER_ROWS * stored(l) + first;
    float g[OUTER_ROWS][block(l)];
    each<OUTER_ROWS, block(l)>([&](int i, int j) { g[i][j] = sums[i * stored(l) + j]; });
#pragma unroll 1
    for (int s = 0; s < TILE; s += 4) {
        float d[OUTER_ROWS][4], h[4];
        each<OUTER_ROWS>([&](int i) { spread(d[i], quad(delta + i * ROW_GROUPS * PITCH + s)); });
        each<block(l)>([&](int j) {
            spread(h, quad(layer + j * 4 * PITCH + s));
            each<OUTER_ROWS, 4>([&](int i, int k) { g[i][j] = fmaf(d[i][k], h[k], g[i][j]); });
        });
    }
    each<OUTER_ROWS, block(l)>([&](int i, int j) { sums[i * stored(l) + j] = g[i][j]; });
}

template <int l> __device__ inline void outer(Gradient &gradient, float *region) {
    if constexpr (columns(l) == 0) return;
    else if constexpr (SMALL) outer_block<l>(gradient, region, 0, 0);
    else {
#pragma unroll 1
        for (int chunk = 0; chunk < chunks(l); ++chunk)
#pragma unroll 1
            for (int first = 0; first < stored(l); first += BLOCK) outer_block<l>(gradient, region, chunk, first);
    }
}
// Hot inputs go through the tensor cores, which multiply 16-bit numbers (bfloat16) and add in float32. Ones and zeros
// are such numbers; a weight or a derivative is the sum of three of them, exactly. One step adds a 16 × 16 by 16 × 8
// product to c; which numbers of it a lane holds is the hardware's choice (lane = 4 g + t):
//     a: rows g and g + 8, columns 2t, 2t + 1 and 2t + 8, 2t + 9;   b: rows as a's columns, column g
//     c: rows g and g + 8, columns 2t and 2t + 1
// In which order the columns of a (and rows of b) count is ours: such that what a lane needs of a row lies in one word.
#ifdef __CUDA_ARCH__
__device__ inline void multiply(float (&c)[4], const word (&a)[4], word b0, word b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
#endif

// Two bits, the 15th and the 31st, are a pair of such numbers: 2 where set. What comes out is halved.
constexpr word PAIR = 0x40004000u;
__device__ inline word upper(float v) { return __float_as_int(v) & 0xffff0000u; }
// Pairs of numbers in three parts each: the upper halves of both, the first lower, then of what is left.
__device__ inline void split(float first, float second, word (&parts)[3]) {
    each<3>([&](int part) {
        parts[part] = upper(first) >> 16 | upper(second);
        first -= __int_as_float(upper(first));
        second -= __int_as_float(upper(second));
    });
}
// The hot weights lie as the tensor cores take them as b, [32 neurons][word of inputs][half][part, 2 × 8 neurons]
// [lane][8 neurons, b0 and b1]: 4 words, each of two inputs, 16 apart. In half k of word w, a lane's inputs are bits
// 4t + 3 - 2k (b0) and 4t + 2 - 2k (b1), and those 16 above.
__device__ inline uint4 &hot_weights(float *net, int chunk, int w, int half, int part, int m, int lane) {
    uint4 *all = reinterpret_cast<uint4 *>(net + HOT_AT);
    return all[((((chunk * WORDS + w) * 2 + half) * 3 + part) * 2 + m) * LANES + lane];
}
// Their gradient and its moments lie as the tensor cores return c, neurons by inputs: [32 neurons][slice]
// [every second input][16 neurons][lane]: 4 numbers, of neurons g and g + 8 and inputs 4t and 4t + 2 of the slice.
__device__ constexpr int hot_at(int chunk, int slice, int odd, int m, int lane) {
    return (((chunk * 2 * WORDS + slice) * 2 + odd) * 2 + m) * LANES + lane;
}
// Call visit(numbers, chunk, w, m, lane) for this thread's share of the hot weights, 16 at a time, as
// numbers[half][above][b][c]; each_hot_number says which they are. If it returns true they are written back.
template <class Visit> __device__ inline void each_hot(float *net, Visit visit) {
    for (int unit = threadIdx.x; HOT > 0 && unit < HOT_NUMBERS / 16; unit += THREADS) {
        const int lane = unit % LANES, m = unit / LANES % 2, at = unit / LANES / 2, chunk = at / most(1, WORDS);
        const int w = at - chunk * WORDS;
        float numbers[2][2][2][2] = {};
        each<2>([&](int half) {
            float(&here)[2][2][2] = numbers[half];
#pragma unroll
            for (int part = 2; part >= 0; --part) {
                const uint4 lies = hot_weights(net, chunk, w, half, part, m, lane);
                const word two[4] = {lies.x, lies.y, lies.z, lies.w};
                each<4>([&](int k) {
                    here[k / 2][k % 2][0] += __int_as_float(two[k] << 16);
                    here[k / 2][k % 2][1] += __int_as_float(two[k] & 0xffff0000u);
                });
            }
        });
        if (visit(numbers, chunk, w, m, lane)) {
            each<2>([&](int half) {
                word parts[4][3];
                each<2, 2>([&](int above, int b) {
                    split(numbers[half][above][b][0], numbers[half][above][b][1], parts[2 * above + b]);
                });
                each<3>([&](int part) {
                    hot_weights(net, chunk, w, half, part, m, lane) =
                        make_uint4(parts[0][part], parts[1][part], parts[2][part], parts[3][part]);
                });
            });
        }
    }
}
// Call visit(number, p) for this thread's hot weights; p is the number's place in PyTorch's order.
template <class Visit> __device__ inline void each_hot_number(float *net, bool write, Visit visit) {
    each_hot(net, [&](float (&numbers)[2][2][2][2], int chunk, int w, int m, int lane) {
        each<2, 2, 2, 2>([&](int half, int above, int b, int c) {
            const int in = 32 * w + 16 * c + lane % 4 * 4 + 3 - 2 * half - b;
            const int out = CHUNK * chunk + 16 * m + 8 * above + lane / 4;
            if (in < HOT && out < WIDTH[1]) visit(numbers[half][above][b][c], out * INPUTS + DENSE + in);
        });
        return write;
    });
}
// Put the sums of a tile's hot inputs' weights where the derivatives will lie; row_of(s) is the table's row. Until then
// the rows' bits lie there.
constexpr int STAGED = ROW_WORDS / 4 % 2 ? ROW_WORDS : ROW_WORDS + 4;   // neighbouring rows start in different banks
static_assert(TILE * STAGED <= CHUNK * PITCH, "onelaunch.py lets in more inputs than there is room for");
template <class RowOf> __device__ inline void add_hot(float *net, float *region, const word *bits, RowOf row_of) {
    const int g = lane_of() / 4, t = lane_of() % 4;
    word *staged = reinterpret_cast<word *>(region + DELTA_AT + (wide(1) - CHUNK) * PITCH);
    for (int i = lane_of(); i < TILE * (ROW_WORDS / 4); i += LANES) {
        const int s = i / (ROW_WORDS / 4), k = i % (ROW_WORDS / 4);
        reinterpret_cast<uint4 *>(staged + s * STAGED)[k] =
            reinterpret_cast<const uint4 *>(bits + (size_t)row_of(s) * ROW_WORDS)[k];
    }
    __syncwarp();
#pragma unroll 1
    for (int chunk = 0; chunk < chunks(1); ++chunk) {
        float sum[4][4][4] = {};
#pragma unroll 1
        for (int w = 0; w < WORDS; ++w) {
            word row[4][2];
            each<4, 2>([&](int m, int k) {
                const word set = staged[(16 * m + 8 * k + g) * STAGED + w];
                row[m][k] = __funnelshift_l(set, set, 11 - 4 * t);   // turned: bit 4t + 3 is the 15th
            });
            each<2>([&](int half) {
                word a[4][4];
                each<4, 4>([&](int m, int k) { a[m][k] = row[m][k % 2] << (2 * half + k / 2) & PAIR; });
                each<3, 2>([&](int part, int n) {
                    const uint4 b = hot_weights(net, chunk, w, half, part, n, lane_of());
                    each<4>([&](int m) {
                        multiply(sum[m][2 * n], a[m], b.x, b.y);
                        multiply(sum[m][2 * n + 1], a[m], b.z, b.w);
                    });
                });
            });
        }
        if (chunk == chunks(1) - 1) __syncwarp();
        float *to = region + DELTA_AT + (CHUNK * chunk + 2 * t) * PITCH + g;
        each<4, 4, 4>([&](int m, int n, int k) {
            to[(8 * n + k % 2) * PITCH + 16 * m + k / 2 * 8] = 0.5f * sum[m][n][k];
        });
    }
    __syncwarp();
}
// The derivatives of a tile in three parts, as the tensor cores take them as a, over all of the region:
// [32 neurons][16 rows][16 neurons][part][lane]: rows 4t and 4t + 1 of neuron g, 4t + 2 and 4t + 3, then of neuron
// g + 8.
__device__ inline uint4 *parts_of(float *region, int chunk, int rows, int m, int part) {
    return reinterpret_cast<uint4 *>(region) + (((chunk * 4 + rows) * 2 + m) * 3 + part) * LANES;
}
__device__ inline void put_parts(float *region, float (&d)[chunks(1)][8][8]) {
    __syncwarp();
    each<chunks(1), 8>([&](int chunk, int i) {
#pragma unroll
        for (int s = 0; s < 8; s += 4) {
            const int n = neuron(i), r = row(s);
            word low[3], high[3];
            split(d[chunk][i][s], d[chunk][i][s + 1], low);
            split(d[chunk][i][s + 2], d[chunk][i][s + 3], high);
            each<3>([&](int part) {
                uint4 *lane = parts_of(region, chunk, r / 16, n / 16, part) + n % 8 * 4 + r % 16 / 4;
                reinterpret_cast<uint2 *>(lane)[n % 16 / 8] = make_uint2(low[part], high[part]);
            });
        }
    });
}
// Add the derivatives of all warps' tiles, the first from row `from` on, to the hot inputs' gradient. A warp takes
// TAKEN slices of 16 inputs at a time. A tile is added up by itself: tensor cores do not round, they cut off.
constexpr int PASSES = (SLICES + 4 * WARPS - 1) / (4 * WARPS);
constexpr int TAKEN = HOT ? (SLICES + PASSES * WARPS - 1) / (PASSES * WARPS) : 1, TAKEN_WORDS = (TAKEN + 1) / 2;
__device__ inline void scatter_hot(const Work &work, float *net, float4 *sums, const int *order, int from, int end,
                                   bool first_of_batch) {
    const int g = lane_of() / 4, t = lane_of() % 4;
#pragma unroll 1
    for (int slice = threadIdx.x / LANES * TAKEN; slice < SLICES; slice += WARPS * TAKEN) {
#pragma unroll 1
        for (int chunk = 0; chunk < chunks(1); ++chunk) {
            float whole[TAKEN][2][2][4];
            each<TAKEN, 2, 2>([&](int q, int odd, int m) {
                float4 v = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
                if (!first_of_batch && slice + q < SLICES) v = sums[hot_at(chunk, slice + q, odd, m, lane_of())];
                spread(whole[q][odd][m], v);
            });
            // Of rows 4t to 4t + 3 the words that the slices lie in, turned so that the first begins at bit 0. (Only
            // where TAKEN is odd can it begin elsewhere, and then there is room for it.)
            word coming[4][TAKEN_WORDS];
            const auto fetch = [&](int first) {
                each<4>([&](int k) {
                    const int place = min(first + 4 * t + k, end - 1), i = GATHER ? order[place] : place;
                    const word *of = work.bits + (size_t)i * ROW_WORDS + slice / 2;
                    word lies[TAKEN_WORDS + 1] = {};
                    each<TAKEN_WORDS>([&](int w) { lies[w] = slice / 2 + w < WORDS ? of[w] : 0; });
                    each<TAKEN_WORDS>([&](int w) {
                        coming[k][w] = __funnelshift_r(lies[w], lies[w + 1], slice % 2 * 16);
                    });
                });
            };
            fetch(from);
#pragma unroll 1
            for (int warp = 0; warp < WARPS && from + warp * TILE < end; ++warp) {
                float *region = net + REGIONS_AT + warp * REGION;
                float tile[TAKEN][2][2][4] = {};
                each<4>([&](int rows) {
                    word b[TAKEN][2][2];
                    each<TAKEN, 2>([&](int q, int k) {
                        const word two = __byte_perm(coming[2 * k][q / 2], coming[2 * k + 1][q / 2],
                                                     q % 2 ? 0x7632 : 0x5410) << (14 - 2 * g);
                        b[q][0][k] = two & PAIR;
                        b[q][1][k] = two >> 1 & PAIR;
                    });
                    fetch(from + warp * TILE + 16 * (rows + 1));
                    each<3>([&](int part) {
                        uint4 lies[2];
                        each<2>([&](int m) { lies[m] = parts_of(region, chunk, rows, m, part)[lane_of()]; });
                        each<TAKEN, 2, 2>([&](int q, int odd, int m) {
                            const word a[4] = {lies[m].x, lies[m].z, lies[m].y, lies[m].w};
                            multiply(tile[q][odd][m], a, b[q][odd][0], b[q][odd][1]);
                        });
                    });
                });
                each<TAKEN, 2, 8>([&](int q, int odd, int k) {
                    whole[q][odd][k / 4][k % 4] += 0.5f * tile[q][odd][k / 4][k % 4];
                });
            }
            each<TAKEN, 2, 2>([&](int q, int odd, int m) {
                if (slice + q < SLICES) sums[hot_at(chunk, slice + q, odd, m, lane_of())] = gathered(whole[q][odd][m]);
            });
        }
    }
}

constexpr int LAST = chunks(DEPTH);

// A chunk of layer l of the tile in the region.
template <int l> __device__ inline void neurons(float *net, float *region, int chunk, float (&h)[8][8]) {
    each<8>([&](int i) {
        const float b = net[shared_bias_at(l) + chunk * CHUNK + neuron(i)];
        each<8>([&](int s) { h[i][s] = b; });
    });
    if constexpr (l == 1 && HOT > 0) {
        each<8, 2>([&](int i, int half) {
            float sum[4];
            spread(sum, quad(region + DELTA_AT + (chunk * CHUNK + neuron(i)) * PITCH + first_row() + 32 * half));
            each<4>([&](int s) { h[i][4 * half + s] += sum[s]; });
        });
    }
    product<WIDTH[l - 1], pitch(l)>(h, net + by_inputs_at(l) + chunk * CHUNK, region + layer_at(l - 1));
    each<8, 8>([&](int i, int s) { h[i][s] = act(h[i][s]); });
}
// Layers l to DEPTH of the tile in the region: the last stays in h, the others go to the region.
template <int l> __device__ inline void forward(float *net, float *region, float (&h)[LAST][8][8]) {
    if constexpr (l == DEPTH) {
        each<LAST>([&](int chunk) { neurons<l>(net, region, chunk, h[chunk]); });
    } else {
        each<chunks(l)>([&](int chunk) {
            neurons<l>(net, region, chunk, h[0]);
            put(region + layer_at(l) + chunk * CHUNK * PITCH, h[0]);
        });
        __syncwarp();
        forward<l + 1>(net, region, h);
    }
}

__device__ inline void logits_of(float *net, float (&h)[LAST][8][8], float (&z)[8]) {
    each<8>([&](int s) { z[s] = 0.0f; });
    each<LAST, 8>([&](int chunk, int i) {
        const float w = net[OUTPUT_AT + chunk * CHUNK + neuron(i)];
        each<8>([&](int s) { z[s] = fmaf(w, h[chunk][i][s], z[s]); });
    });
    each<8>([&](int s) { z[s] = over_neurons(z[s]) + net[OUTPUT_BIAS_AT]; });
}
// d holds the loss's derivative by layer l's sums: add its share to the gradient, and go down.
template <int l>
__device__ inline void backward(float *net, float *region, float (&d)[chunks(l)][8][8], Gradient &gradient) {
    each<chunks(l)>([&](int chunk) {
        put(region + DELTA_AT + chunk * CHUNK * PITCH, d[chunk]);
        each<8, 8>([&](int i, int s) { gradient.bias[bias_share_at(l) + 8 * chunk + i] += d[chunk][i][s]; });
    });
    __syncwarp();
    outer<l>(gradient, region);
    if constexpr (l > 1) {
        float below[chunks(l - 1)][8][8] = {};
        each<chunks(l - 1)>([&](int chunk) {
            product<WIDTH[l], pitch(l - 1)>(below[chunk], net + by_outputs_at(l) + chunk * CHUNK, region + DELTA_AT);
            each<8, 2>([&](int i, int half) {
                float h[4];
                float *layer = region + layer_at(l - 1) + (chunk * CHUNK + neuron(i)) * PITCH;
                spread(h, quad(layer + first_row() + 32 * half));
                each<4>([&](int s) { below[chunk][i][4 * half + s] = slope(below[chunk][i][4 * half + s], h[s]); });
            });
        });
        __syncwarp();
        backward<l - 1>(net, region, below, gradient);
    } else if constexpr (HOT > 0) put_parts(region, d);
}

// Copy TILE rows from feature-major X [inputs × pitch] into the region.
__device__ inline void load_rows(float *region, const float *X, int pitch, int first) {
    __syncwarp();
#pragma unroll
    for (int c = lane_of(); c < DENSE * (TILE / 4); c += LANES) {
        const int feature = c / (TILE / 4), s = c % (TILE / 4) * 4;
        const float *from = X + (size_t)feature * pitch + first + s;
        quad(region + feature * PITCH + s) = quad(from);
    }
    __syncwarp();
}

// Copy the rows that an order names from row-major X [n × DENSE_PADDED]; rows past its end repeat the last.
__device__ inline void gather_rows(float *region, const float *X, const int *order, int first, int end) {
    __syncwarp();
#pragma unroll
    for (int s = lane_of(); s < TILE; s += LANES) {
        const float *from = X + (size_t)order[min(first + s, end - 1)] * DENSE_PADDED;
#pragma unroll
        for (int feature = 0; feature < DENSE_PADDED; feature += 4) {
            float x[4];
            spread(x, quad(from + feature));
            each<4>([&](int k) { region[(feature + k) * PITCH + s] = x[k]; });
        }
    }
    __syncwarp();
}

__device__ inline int padded(int rows) { return (rows + TILE - 1) / TILE * TILE; }

// The gradient of one tile, added to the lane's share.
__device__ inline void train_tile(const Work &work, float *net, float *region, const word *labels,
                                  const int *order, int first, int end, float scale, Gradient &gradient) {
    if (GATHER) gather_rows(region, work.X, order, first, end);
    else load_rows(region, work.X, padded(work.n), first);
    if constexpr (HOT > 0)
        add_hot(net, region, work.bits, [&](int s) {
            const int place = min(first + s, end - 1);
            return GATHER ? order[place] : place;
        });
    word y = 0;
    each<8>([&](int s) {
        const int place = min(first + row(s), end - 1), i = GATHER ? order[place] : place;
        y |= (labels[i / 32] >> i % 32 & 1) << s;
    });
    float h[LAST][8][8], delta[8];
    forward<1>(net, region, h);
    logits_of(net, h, delta);
    each<8>([&](int s) {
        delta[s] = first + row(s) < end ? (sigmoid(delta[s]) - (float)(y >> s & 1)) * scale : 0.0f;
        gradient.output_bias += delta[s];
    });
    each<LAST, 8>([&](int chunk, int i) {
        const float w = net[OUTPUT_AT + chunk * CHUNK + neuron(i)];
        float &g = gradient.output[8 * chunk + i];
        each<8>([&](int s) {
            g = fmaf(delta[s], h[chunk][i][s], g);
            h[chunk][i][s] = slope(w * delta[s], h[chunk][i][s]);
        });
    });
    backward<DEPTH>(net, region, h, gradient);
}

// Write the warp's gradient over its region.
template <int l> __device__ inline void deposit(Gradient &gradient, float *region) {
    each<chunks(l)>([&](int chunk) {
        each<OUTER_ROWS, columns(l)>([&](int i, int j) {
            const int out = chunk * CHUNK + outer_row() + ROW_GROUPS * i, in = outer_column() + 4 * j;
            if (out < WIDTH[l] && in < WIDTH[l - 1])
                region[slot_at(l) + out * WIDTH[l - 1] + in] =
                    gradient.matrix[share_at(l) + (chunk * OUTER_ROWS + i) * stored(l) + j];
        });
        each<8>([&](int i) {
            const float b = over_rows(gradient.bias[bias_share_at(l) + 8 * chunk + i]);
            const int out = chunk * CHUNK + neuron(i);
            if (first_row() == 0 && out < WIDTH[l]) region[slot_at(l) + WIDTH[l] * WIDTH[l - 1] + out] = b;
        });
    });
    if constexpr (l < DEPTH) deposit<l + 1>(gradient, region);
    else {
        each<LAST, 8>([&](int chunk, int i) {
            const float w = over_rows(gradient.output[8 * chunk + i]);
            const int in = chunk * CHUNK + neuron(i);
            if (first_row() == 0 && in < WIDTH[DEPTH]) region[slot_at(DEPTH + 1) + in] = w;
        });
        const float b = over_rows(gradient.output_bias);
        if (lane_of() == 0) region[slot_at(DEPTH + 1) + WIDTH[DEPTH]] = b;
    }
}

// Call visit(p, at, also, slot) for this thread's share of the network's numbers but the hot weights: p is a number's
// place in PyTorch's order (the dense inputs first), `at` and `also` its places in shared memory (the same one,
// mostly), and `slot` its place in a warp's gradient.
template <int l = 1, class Visit> __device__ inline void each_number(Visit visit) {
    if constexpr (l <= DEPTH) {
        for (int k = threadIdx.x; k < WIDTH[l] * WIDTH[l - 1]; k += THREADS) {
            const int out = k / (WIDTH[l - 1] + !WIDTH[l - 1]), in = k - out * WIDTH[l - 1];
            const int at = by_inputs_at(l) + in * pitch(l) + out;
            visit(matrix_at(l) + out * inputs_of(l) + in, at, l == 1 ? at : by_outputs_at(l) + out * pitch(l - 1) + in,
                  slot_at(l) + k);
        }
        for (int p = threadIdx.x; p < WIDTH[l]; p += THREADS) {
            const int at = shared_bias_at(l) + p;
            visit(bias_at(l) + p, at, at, slot_at(l) + WIDTH[l] * WIDTH[l - 1] + p);
        }
        each_number<l + 1>(visit);
    } else {
        for (int p = threadIdx.x; p <= WIDTH[DEPTH]; p += THREADS) {
            const int at = p < WIDTH[DEPTH] ? OUTPUT_AT + p : OUTPUT_BIAS_AT;
            visit(matrix_at(l) + p, at, at, slot_at(l) + p);
        }
    }
}

struct Steps { double beta1_power, beta2_power; };

// torch.optim.Adam's step, the gradient summed over the warps in their order.
__device__ inline void adam(float *net, float *moments, float4 *hot, double learning_rate, Steps &steps) {
    steps.beta1_power *= 0.9;
    steps.beta2_power *= 0.999;
    const float size = (float)(learning_rate / (1.0 - steps.beta1_power));
    const float root = (float)sqrt(1.0 - steps.beta2_power);
    const auto step = [&](float g, float &mean, float &square) {
        mean += (float)(1.0 - 0.9) * (g - mean);
        square = square * 0.999f + (float)(1.0 - 0.999) * g * g;
        return size * mean / (sqrtf(square) / root + 1e-8f);
    };
    each_number([&](int p, int at, int also, int slot) {
        float g = 0.0f;
        each<WARPS>([&](int warp) { g += net[REGIONS_AT + warp * REGION + slot]; });
        net[at] = net[also] = net[at] - step(g, moments[p], moments[NUMBERS + p]);
    });
    each_hot(net, [&](float (&numbers)[2][2][2][2], int chunk, int w, int m, int lane) {
        each<2, 2>([&](int c, int odd) {
            const int at = hot_at(chunk, 2 * w + c, odd, m, lane);
            if (2 * w + c >= SLICES) return;
            float g[4], mean[4], square[4];
            spread(g, hot[at]);
            spread(mean, hot[HOT_NUMBERS / 4 + at]);
            spread(square, hot[HOT_NUMBERS / 2 + at]);
            each<4>([&](int k) { numbers[1 - k % 2][k / 2][1 - odd][c] -= step(g[k], mean[k], square[k]); });
            hot[HOT_NUMBERS / 4 + at] = gathered(mean);
            hot[HOT_NUMBERS / 2 + at] = gathered(square);
        });
        return true;
    });
}

// The logits of TILE rows of a table of n from `first` on.
__device__ inline void judge(float *net, float *region, const float *X, const word *bits, int n, int first,
                             float (&z)[8]) {
    load_rows(region, X, padded(n), first);
    if constexpr (HOT > 0) add_hot(net, region, bits, [&](int s) { return min(first + s, n - 1); });
    float h[LAST][8][8];
    forward<1>(net, region, h);
    logits_of(net, h, z);
}

// The mean loss on the validation rows; the same number in every thread.
__device__ inline float validate(const Work &work, float *net, float *region) {
    double sum = 0.0;
    for (int first = threadIdx.x / LANES * TILE; first < work.n_val; first += WARPS * TILE) {
        float z[8], loss = 0.0f;
        judge(net, region, work.X_val, work.bits_val, work.n_val, first, z);
        each<8>([&](int s) {
            const int i = first + row(s);
            if (i < work.n_val && first_neuron() == 0) {
                const float y = work.y_val[i / 32] >> i % 32 & 1;
                loss += (1.0f - y) * z[s] - (fminf(z[s], 0.0f) - log1pf(expf(-fabsf(z[s]))));
            }
        });
        sum += loss;
    }
    for (int step = 1; step < LANES; step *= 2) sum += __shfl_xor_sync(~0u, sum, step);
    double *sums = reinterpret_cast<double *>(net + WORDS_AT);
    if (lane_of() == 0) sums[threadIdx.x / LANES] = sum;
    __syncthreads();
    sum = 0.0;
    for (int warp = 0; warp < WARPS; ++warp) sum += sums[warp];
    return (float)(sum / work.n_val);
}

// Train network k from start to stop; false if the host said stop.
__device__ inline bool train(const Work &work, int k, float *net, float *region, word *labels,
                             float *moments, float4 *hot) {
    int *stop = reinterpret_cast<int *>(net + WORDS_AT + 2 * WARPS) + 1;
    const int words = (work.n + 31) / 32;
    float *best = work.weights + (size_t)k * NUMBERS;
    const int seed = work.seed_of[k];
    const float *start = work.starts + (size_t)seed * NUMBERS;
    for (int i = threadIdx.x; i < words; i += THREADS) labels[i] = work.y[i];
    __syncthreads();
    for (int i = work.flip_ends[k] + threadIdx.x; i < work.flip_ends[k + 1]; i += THREADS)
        atomicXor(labels + work.flips[i] / 32, 1u << work.flips[i] % 32);
    for (int i = threadIdx.x; i < REGIONS_AT; i += THREADS) net[i] = 0.0f;
    __syncthreads();
    each_number([&](int p, int at, int also, int) {
        net[at] = net[also] = best[p] = start[p];
        moments[p] = moments[NUMBERS + p] = 0.0f;
    });
    for (int i = threadIdx.x; HOT > 0 && i < HOT_NUMBERS / 2; i += THREADS)
        hot[HOT_NUMBERS / 4 + i] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    each_hot_number(net, true, [&](float &w, int p) { w = best[p] = start[p]; });
    __syncthreads();

    Steps steps = {1.0, 1.0};
    float best_loss = __int_as_float(0x7f800000);  // infinity
    int best_epoch = 0, epoch = 0;
    while (true) {
        const int *order = work.orders + (GATHER ? ((size_t)seed * work.max_epochs + epoch) * work.n : 0);
        ++epoch;
        for (int begin = 0; begin < work.n; begin += work.batch) {
            const int end = min(begin + work.batch, work.n);
            Gradient gradient = {};
            for (int round = begin; round < end; round += WARPS * TILE) {
                const int first = round + threadIdx.x / LANES * TILE;
                if (first < end)
                    train_tile(work, net, region, labels, order, first, end, 1.0f / (end - begin), gradient);
                if constexpr (HOT > 0) {
                    __syncthreads();
                    scatter_hot(work, net, hot, order, round, end, round == begin);
                    __syncthreads();
                }
            }
            __syncwarp();
            deposit<1>(gradient, region);
            __syncthreads();
            adam(net, moments, hot, work.learning_rate, steps);
            __syncthreads();
        }
        if (threadIdx.x == 0) *stop = *(volatile int *)(work.control + 2);
        const float loss = validate(work, net, region);
        const bool stopping = *stop;
        if (loss < best_loss) {
            best_loss = loss;
            best_epoch = epoch;
            each_number([&](int p, int at, int, int) { best[p] = net[at]; });
            each_hot_number(net, false, [&](float &w, int p) { best[p] = w; });
        }
        if (stopping) return false;
        if (epoch - best_epoch >= work.patience || epoch >= work.max_epochs) break;
    }
    if (threadIdx.x == 0) {
        work.losses[k] = best_loss;
        work.best_epochs[k] = best_epoch;
        work.epochs[k] = epoch;
    }
    __syncthreads();
    each_number([&](int p, int at, int also, int) { net[at] = net[also] = best[p]; });
    each_hot_number(net, true, [&](float &w, int p) { w = best[p]; });
    __syncthreads();
    return true;
}

// The logits of the people, by the network in shared memory.
__device__ inline void ask(const Work &work, int k, float *net, float *region) {
    for (int first = threadIdx.x / LANES * TILE; first < work.n_people; first += WARPS * TILE) {
        float z[8];
        judge(net, region, work.people, work.bits_people, work.n_people, first, z);
        each<8>([&](int s) {
            if (first + row(s) < work.n_people && first_neuron() == 0)
                work.logits[(size_t)k * work.n_people + first + row(s)] = z[s];
        });
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) fit(const Work work) {
    extern __shared__ float4 shared[];
    float *net = reinterpret_cast<float *>(shared);
    float *region = net + REGIONS_AT + threadIdx.x / LANES * REGION;
    int *taken = reinterpret_cast<int *>(net + WORDS_AT + 2 * WARPS);
    word *labels = work.labels + (size_t)blockIdx.x * ((work.n + 31) / 32);
    float *moments = work.moments + (size_t)blockIdx.x * 2 * NUMBERS;
    float4 *hot = reinterpret_cast<float4 *>(work.hot) + (size_t)blockIdx.x * 3 * (HOT_NUMBERS / 4);
    while (true) {
        __syncthreads();
        if (threadIdx.x == 0) *taken = atomicAdd(work.control, 1);
        __syncthreads();
        const int k = *taken;
        if (k >= work.networks || !train(work, k, net, region, labels, moments, hot)) return;
        ask(work, k, net, region);
        if (threadIdx.x == 0) atomicAdd(work.control + 1, 1);
    }
}
