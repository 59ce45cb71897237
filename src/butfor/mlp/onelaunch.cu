// The kernel that onelaunch.py describes and compiles; it defines the capitalised constants.
typedef unsigned int word;

constexpr int LANES = 32, THREADS = LANES * WARPS;
constexpr int TILE = 64;          // rows that a warp works on at a time
constexpr int PITCH = TILE + 4;   // of a feature in a tile: neighbours start in different banks
constexpr int WIDEST = 32;        // neurons that the 4 × 8 lanes cover with 8 each
constexpr int WPITCH = WIDEST + 4;
constexpr int OUTER_ROWS = 4;     // a lane's share of a layer's gradient: every 8th row, every 4th column
constexpr int ROW_GROUPS = WIDEST / OUTER_ROWS;

__device__ constexpr int WIDTH[] = {WIDTHS};     // inputs, hidden layers 1 to DEPTH, the logit

// Where layer l's matrix and bias begin among a network's packed numbers.
__device__ constexpr int matrix_at(int l) {
    int at = 0;
    for (int i = 1; i < l; ++i) at += WIDTH[i] * (WIDTH[i - 1] + 1);
    return at;
}
__device__ constexpr int bias_at(int l) { return matrix_at(l) + WIDTH[l] * WIDTH[l - 1]; }
constexpr int NUMBERS = matrix_at(DEPTH + 2);

// Shared memory, in floats: the network, then one region per warp, then a few words for all.
// The network: per hidden layer the matrix by inputs `[in × WPITCH]` (forward), the bias, and by
// outputs `[out × WPITCH]` (backward, not for layer 1); the output's weights and bias.
__device__ constexpr int by_inputs_at(int l) {
    int at = 0;
    for (int i = 1; i < l; ++i) at += WPITCH * (WIDTH[i - 1] + 1 + (i > 1 ? WIDTH[i] : 0));
    return at;
}
__device__ constexpr int shared_bias_at(int l) { return by_inputs_at(l) + WPITCH * WIDTH[l - 1]; }
__device__ constexpr int by_outputs_at(int l) { return shared_bias_at(l) + WPITCH; }
constexpr int OUTPUT_AT = by_inputs_at(DEPTH + 1);       // w, then b at [WIDEST]
constexpr int REGIONS_AT = OUTPUT_AT + WPITCH;
// A warp's region: its tile's inputs, its hidden layers but the last, and the derivatives.
__device__ constexpr int layer_at(int l) { return l == 0 ? 0 : PITCH * (INPUTS_PADDED + WIDEST * (l - 1)); }
constexpr int DELTA_AT = layer_at(DEPTH);
constexpr int REGION = layer_at(DEPTH + 1);
constexpr int WORDS_AT = REGIONS_AT + WARPS * REGION;    // 8 bytes per warp, and 4 words

struct Work {
    const float *X, *X_val, *people, *starts;
    const word *y, *y_val;
    const int *flips, *flip_ends, *seed_of, *orders;
    float *weights, *losses, *logits, *moments;
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
__device__ inline void spread(float (&to)[4], float4 v) {
    to[0] = v.x;
    to[1] = v.y;
    to[2] = v.z;
    to[3] = v.w;
}

__device__ inline float sigmoid(float z) { return 1.0f / (1.0f + expf(-z)); }
#if ACTIVATION == 0
__device__ inline float act(float z) { return fmaxf(z, 0.0f); }
__device__ inline float slope(float d, float h) { return h > 0.0f ? d : 0.0f; }
#elif ACTIVATION == 1
__device__ inline float act(float z) { return tanhf(z); }
__device__ inline float slope(float d, float h) { return d * (1.0f - h * h); }
#else
__device__ inline float act(float z) { return sigmoid(z); }
__device__ inline float slope(float d, float h) { return d * (1.0f - h) * h; }
#endif

// z += matrix · layer, the lane's 8 × 8 part; matrix is [depth × WPITCH], layer [depth × PITCH].
template <int depth> __device__ inline void product(float (&z)[8][8], float *matrix, float *layer) {
    matrix += first_neuron();
    layer += first_row();
#pragma unroll 4
    for (int k = 0; k < depth; ++k) {
        float w[2][4], h[2][4];
        spread(w[0], quad(matrix + k * WPITCH));
        spread(w[1], quad(matrix + k * WPITCH + 16));
        spread(h[0], quad(layer + k * PITCH));
        spread(h[1], quad(layer + k * PITCH + 32));
#pragma unroll
        for (int i = 0; i < 8; ++i)
#pragma unroll
            for (int s = 0; s < 8; ++s) z[i][s] = fmaf(w[i / 4][i % 4], h[s / 4][s % 4], z[i][s]);
    }
}

__device__ inline void put(float *layer, float (&z)[8][8]) {
#pragma unroll
    for (int i = 0; i < 8; ++i)
#pragma unroll
        for (int half = 0; half < 2; ++half)
            quad(layer + neuron(i) * PITCH + first_row() + 32 * half) =
                make_float4(z[i][4 * half], z[i][4 * half + 1], z[i][4 * half + 2], z[i][4 * half + 3]);
}

constexpr int COLUMNS = (INPUTS_PADDED > WIDEST ? INPUTS_PADDED : WIDEST) / 4;

// A lane's share of the gradient, summed over the tiles of a batch in registers.
struct Gradient {
    float matrix[DEPTH][OUTER_ROWS][COLUMNS], bias[DEPTH][8], output[8], output_bias;
};

// Lane by lane, rows alternate before columns do, so that half a warp reads 128 bytes at a time.
__device__ inline int outer_row() {
    return (lane_of() & 1) | (lane_of() >> 2 & 1) << 1 | lane_of() >> 4 << 2;
}
__device__ inline int outer_column() { return (lane_of() >> 1 & 1) | (lane_of() >> 3 & 1) << 1; }

// gradient[l] += delta · layer l-1, summed over the tile's rows.
template <int l> __device__ inline void outer(Gradient &gradient, float *region) {
    float *delta = region + DELTA_AT + outer_row() * PITCH;
    float *layer = region + layer_at(l - 1) + outer_column() * PITCH;
#pragma unroll 1
    for (int s = 0; s < TILE; s += 4) {
        float4 d[OUTER_ROWS];
#pragma unroll
        for (int i = 0; i < OUTER_ROWS; ++i) d[i] = quad(delta + i * ROW_GROUPS * PITCH + s);
#pragma unroll
        for (int j = 0; j < (WIDTH[l - 1] + 3) / 4; ++j) {
            const float4 h = quad(layer + j * 4 * PITCH + s);
#pragma unroll
            for (int i = 0; i < OUTER_ROWS; ++i) {
                float &g = gradient.matrix[l - 1][i][j];
                g = fmaf(d[i].x, h.x, g);
                g = fmaf(d[i].y, h.y, g);
                g = fmaf(d[i].z, h.z, g);
                g = fmaf(d[i].w, h.w, g);
            }
        }
    }
}

// Layers l to DEPTH of the tile in the region: the last stays in h, the others go to the region.
template <int l> __device__ inline void forward(float *net, float *region, float (&h)[8][8]) {
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        const float b = net[shared_bias_at(l) + neuron(i)];
#pragma unroll
        for (int s = 0; s < 8; ++s) h[i][s] = b;
    }
    product<WIDTH[l - 1]>(h, net + by_inputs_at(l), region + layer_at(l - 1));
#pragma unroll
    for (int i = 0; i < 8; ++i)
#pragma unroll
        for (int s = 0; s < 8; ++s) h[i][s] = act(h[i][s]);
    if constexpr (l < DEPTH) {
        put(region + layer_at(l), h);
        __syncwarp();
        forward<l + 1>(net, region, h);
    }
}

__device__ inline void logits_of(float *net, float (&h)[8][8], float (&z)[8]) {
#pragma unroll
    for (int s = 0; s < 8; ++s) z[s] = 0.0f;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        const float w = net[OUTPUT_AT + neuron(i)];
#pragma unroll
        for (int s = 0; s < 8; ++s) z[s] = fmaf(w, h[i][s], z[s]);
    }
#pragma unroll
    for (int s = 0; s < 8; ++s) z[s] = over_neurons(z[s]) + net[OUTPUT_AT + WIDEST];
}

// d holds the loss's derivative by layer l's sums: add its share to the gradient, and go down.
template <int l>
__device__ inline void backward(float *net, float *region, float (&d)[8][8], Gradient &gradient) {
    put(region + DELTA_AT, d);
#pragma unroll
    for (int i = 0; i < 8; ++i)
#pragma unroll
        for (int s = 0; s < 8; ++s) gradient.bias[l - 1][i] += d[i][s];
    __syncwarp();
    outer<l>(gradient, region);
    if constexpr (l > 1) {
#pragma unroll
        for (int i = 0; i < 8; ++i)
#pragma unroll
            for (int s = 0; s < 8; ++s) d[i][s] = 0.0f;
        product<WIDTH[l]>(d, net + by_outputs_at(l), region + DELTA_AT);
#pragma unroll
        for (int i = 0; i < 8; ++i)
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                float h[4];
                spread(h, quad(region + layer_at(l - 1) + neuron(i) * PITCH + first_row() + 32 * half));
#pragma unroll
                for (int s = 0; s < 4; ++s) d[i][4 * half + s] = slope(d[i][4 * half + s], h[s]);
            }
        __syncwarp();
        backward<l - 1>(net, region, d, gradient);
    }
}

// Copy TILE rows from feature-major X [inputs × pitch] into the region.
__device__ inline void load_rows(float *region, const float *X, int pitch, int first) {
    __syncwarp();
#pragma unroll
    for (int c = lane_of(); c < INPUTS * (TILE / 4); c += LANES) {
        const int feature = c / (TILE / 4), s = c % (TILE / 4) * 4;
        const float *from = X + (size_t)feature * pitch + first + s;
        quad(region + feature * PITCH + s) = *reinterpret_cast<const float4 *>(from);
    }
    __syncwarp();
}

// Copy the rows that an order names from row-major X [n × INPUTS_PADDED]; rows past its end repeat the last.
__device__ inline void gather_rows(float *region, const float *X, const int *order, int first, int end) {
    __syncwarp();
#pragma unroll
    for (int s = lane_of(); s < TILE; s += LANES) {
        const float *from = X + (size_t)order[min(first + s, end - 1)] * INPUTS_PADDED;
#pragma unroll
        for (int feature = 0; feature < INPUTS_PADDED; feature += 4) {
            const float4 x = *reinterpret_cast<const float4 *>(from + feature);
            region[feature * PITCH + s] = x.x;
            region[(feature + 1) * PITCH + s] = x.y;
            region[(feature + 2) * PITCH + s] = x.z;
            region[(feature + 3) * PITCH + s] = x.w;
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
    word y = 0;
#pragma unroll
    for (int s = 0; s < 8; ++s) {
        const int place = min(first + row(s), end - 1), i = GATHER ? order[place] : place;
        y |= (labels[i / 32] >> i % 32 & 1) << s;
    }
    float h[8][8], delta[8];
    forward<1>(net, region, h);
    logits_of(net, h, delta);
#pragma unroll
    for (int s = 0; s < 8; ++s) {
        delta[s] = first + row(s) < end ? (sigmoid(delta[s]) - (float)(y >> s & 1)) * scale : 0.0f;
        gradient.output_bias += delta[s];
    }
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        const float w = net[OUTPUT_AT + neuron(i)];
#pragma unroll
        for (int s = 0; s < 8; ++s) {
            gradient.output[i] = fmaf(delta[s], h[i][s], gradient.output[i]);
            h[i][s] = slope(w * delta[s], h[i][s]);
        }
    }
    backward<DEPTH>(net, region, h, gradient);
}

// Write the warp's gradient, packed, over its region.
template <int l> __device__ inline void deposit(Gradient &gradient, float *region) {
#pragma unroll
    for (int i = 0; i < OUTER_ROWS; ++i)
#pragma unroll
        for (int j = 0; j < (WIDTH[l - 1] + 3) / 4; ++j) {
            const int out = outer_row() + ROW_GROUPS * i, in = outer_column() + 4 * j;
            if (out < WIDTH[l] && in < WIDTH[l - 1])
                region[matrix_at(l) + out * WIDTH[l - 1] + in] = gradient.matrix[l - 1][i][j];
        }
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        const float b = over_rows(gradient.bias[l - 1][i]);
        if (first_row() == 0 && neuron(i) < WIDTH[l]) region[bias_at(l) + neuron(i)] = b;
    }
    if constexpr (l < DEPTH) deposit<l + 1>(gradient, region);
    else {
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            const float w = over_rows(gradient.output[i]);
            if (first_row() == 0 && neuron(i) < WIDTH[DEPTH]) region[matrix_at(DEPTH + 1) + neuron(i)] = w;
        }
        const float b = over_rows(gradient.output_bias);
        if (lane_of() == 0) region[bias_at(DEPTH + 1)] = b;
    }
}

// Call visit(p, at, also) for this thread's share of the network's numbers: p is a number's place
// in PyTorch's order, `at` and `also` its places in shared memory (the same one, mostly).
template <int l = 1, class Visit> __device__ inline void each_number(Visit visit) {
    if constexpr (l <= DEPTH) {
        for (int p = threadIdx.x; p < WIDTH[l] * WIDTH[l - 1]; p += THREADS) {
            const int out = p / WIDTH[l - 1], in = p % WIDTH[l - 1], at = by_inputs_at(l) + in * WPITCH + out;
            visit(matrix_at(l) + p, at, l == 1 ? at : by_outputs_at(l) + out * WPITCH + in);
        }
        for (int p = threadIdx.x; p < WIDTH[l]; p += THREADS) {
            const int at = shared_bias_at(l) + p;
            visit(bias_at(l) + p, at, at);
        }
        each_number<l + 1>(visit);
    } else {
        for (int p = threadIdx.x; p <= WIDTH[DEPTH]; p += THREADS) {
            const int at = OUTPUT_AT + (p < WIDTH[DEPTH] ? p : WIDEST);
            visit(matrix_at(l) + p, at, at);
        }
    }
}

struct Steps { double beta1_power, beta2_power; };

// torch.optim.Adam's step, the gradient summed over the warps in their order.
__device__ inline void adam(float *net, float *moments, double learning_rate, Steps &steps) {
    steps.beta1_power *= 0.9;
    steps.beta2_power *= 0.999;
    const float size = (float)(learning_rate / (1.0 - steps.beta1_power));
    const float root = (float)sqrt(1.0 - steps.beta2_power);
    each_number([&](int p, int at, int also) {
        float g = 0.0f;
#pragma unroll
        for (int warp = 0; warp < WARPS; ++warp) g += net[REGIONS_AT + warp * REGION + p];
        float mean = moments[p], square = moments[NUMBERS + p];
        mean += (float)(1.0 - 0.9) * (g - mean);
        square = square * 0.999f + (float)(1.0 - 0.999) * g * g;
        moments[p] = mean;
        moments[NUMBERS + p] = square;
        net[at] = net[also] = net[at] - size * mean / (sqrtf(square) / root + 1e-8f);
    });
}

// The mean loss on the validation rows; the same number in every thread.
__device__ inline float validate(const Work &work, float *net, float *region) {
    double sum = 0.0;
    for (int first = threadIdx.x / LANES * TILE; first < work.n_val; first += WARPS * TILE) {
        load_rows(region, work.X_val, padded(work.n_val), first);
        float h[8][8], z[8], loss = 0.0f;
        forward<1>(net, region, h);
        logits_of(net, h, z);
#pragma unroll
        for (int s = 0; s < 8; ++s) {
            const int i = first + row(s);
            if (i < work.n_val && first_neuron() == 0) {
                const float y = work.y_val[i / 32] >> i % 32 & 1;
                loss += (1.0f - y) * z[s] - (fminf(z[s], 0.0f) - log1pf(expf(-fabsf(z[s]))));
            }
        }
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
                             float *moments) {
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
    each_number([&](int p, int at, int also) {
        net[at] = net[also] = best[p] = start[p];
        moments[p] = moments[NUMBERS + p] = 0.0f;
    });
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
            for (int first = begin + threadIdx.x / LANES * TILE; first < end; first += WARPS * TILE)
                train_tile(work, net, region, labels, order, first, end, 1.0f / (end - begin), gradient);
            __syncwarp();
            deposit<1>(gradient, region);
            __syncthreads();
            adam(net, moments, work.learning_rate, steps);
            __syncthreads();
        }
        if (threadIdx.x == 0) *stop = *(volatile int *)(work.control + 2);
        const float loss = validate(work, net, region);
        const bool stopping = *stop;
        if (loss < best_loss) {
            best_loss = loss;
            best_epoch = epoch;
            each_number([&](int p, int at, int) { best[p] = net[at]; });
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
    each_number([&](int p, int at, int also) { net[at] = net[also] = best[p]; });
    __syncthreads();
    return true;
}

// The logits of the people, by the network in shared memory.
__device__ inline void ask(const Work &work, int k, float *net, float *region) {
    for (int first = threadIdx.x / LANES * TILE; first < work.n_people; first += WARPS * TILE) {
        load_rows(region, work.people, padded(work.n_people), first);
        float h[8][8], z[8];
        forward<1>(net, region, h);
        logits_of(net, h, z);
#pragma unroll
        for (int s = 0; s < 8; ++s)
            if (first + row(s) < work.n_people && first_neuron() == 0)
                work.logits[(size_t)k * work.n_people + first + row(s)] = z[s];
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) fit(const Work work) {
    extern __shared__ float4 shared[];
    float *net = reinterpret_cast<float *>(shared);
    float *region = net + REGIONS_AT + threadIdx.x / LANES * REGION;
    int *taken = reinterpret_cast<int *>(net + WORDS_AT + 2 * WARPS);
    word *labels = work.labels + (size_t)blockIdx.x * ((work.n + 31) / 32);
    float *moments = work.moments + (size_t)blockIdx.x * 2 * NUMBERS;
    while (true) {
        __syncthreads();
        if (threadIdx.x == 0) *taken = atomicAdd(work.control, 1);
        __syncthreads();
        const int k = *taken;
        if (k >= work.networks || !train(work, k, net, region, labels, moments)) return;
        ask(work, k, net, region);
        if (threadIdx.x == 0) atomicAdd(work.control + 1, 1);
    }
}
