extern "C" __global__ void reduced(const int *in, int *out) {
    __shared__ int part[128];
    part[threadIdx.x] = in[blockIdx.x * 128 + threadIdx.x];                             // fills
    BARRIER;
    for (int step = 64; step; step /= 2) {
        if (threadIdx.x < step) part[threadIdx.x] += part[threadIdx.x + step];          // adds
        __syncthreads();
    }
    if (threadIdx.x == 0) atomicAdd(out, part[0]);
}
extern "C" __global__ void tiles(const int *in, int *out) {
    __shared__ int tile[16][17];
    for (int k = 0; k < 3; k++) {
        tile[threadIdx.y][threadIdx.x] = in[k * 256 + threadIdx.y * 16 + threadIdx.x];  // loads a tile
        __syncthreads();
        out[k * 256 + threadIdx.y * 16 + threadIdx.x] = tile[threadIdx.x][threadIdx.y]; // uses it
        BARRIER;
    }
}
extern "C" __global__ void reversed(int *out) {
    __shared__ int line[32];
    line[threadIdx.x] = threadIdx.x;                                                    // of its warp
    WARP_BARRIER;
    out[blockIdx.x * 32 + threadIdx.x] = line[31 - threadIdx.x];                        // of another lane
}
extern "C" __global__ void halves(int *out) {
    __shared__ int line[64];
    int lane = threadIdx.x % 16, first = threadIdx.x - lane;
    for (int k = 0; k < 2 + (first & 16) / 16; k++) {
        line[threadIdx.x] = threadIdx.x + k;                                            // own half
        if (MASKED) __syncwarp(0xffff << (first & 16));
        out[threadIdx.x] = line[first + 15 - lane];                                     // mirrored
        if (MASKED) __syncwarp(0xffff << (first & 16));
    }
}
extern "C" __global__ void counted(const unsigned char *in, unsigned *out) {
    __shared__ unsigned bins[256];
    bins[threadIdx.x] = 0;
    __syncthreads();
    COUNT(&bins[in[threadIdx.x]]);                                                      // counts
    __syncthreads();
    atomicAdd(&out[threadIdx.x], bins[threadIdx.x]);
}
extern "C" __global__ void shifted(int *out, const int *in) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = FROM[i ^ 32] + 1;                                                          // neighbor
}
extern "C" __global__ void last_block(int *part, unsigned *done, int *out) {
    __shared__ bool last;
    if (threadIdx.x == 0) {
        part[blockIdx.x] = blockIdx.x;                                                  // leaves
        __threadfence();
        last = SIGNAL;
    }
    __syncthreads();
    if (last && threadIdx.x < gridDim.x) out[threadIdx.x] = part[threadIdx.x];          // collects
}
extern "C" __global__ void partly(int *out, int n) {
    __shared__ int line[64];
    if (threadIdx.x < n) line[threadIdx.x] = threadIdx.x;
    __syncthreads();
    out[threadIdx.x] = line[63 - threadIdx.x];                                          // reads all
}
extern "C" __global__ void one_cell(int *out) {
    __shared__ int cell;
    if (threadIdx.x == 0 || ALL) cell = threadIdx.x;                                    // all
    __syncthreads();
    out[threadIdx.x] = cell;
}
extern "C" __global__ void bytes(unsigned char *out, const unsigned *in) {
    int i = threadIdx.x;
    if (i < 32) out[i] = i;                                                             // one byte
    else *(unsigned *)&out[WORD + 4 * (i - 32)] = in[i];                                // four
}
extern "C" __global__ void named(int *out) {
    __shared__ int box[64];
    if (threadIdx.x < 64) {
        box[threadIdx.x] = threadIdx.x;
        asm volatile("bar.arrive 1, 128;" ::: "memory");
    } else {
        asm volatile("bar.sync 1, 128;" ::: "memory");
        out[threadIdx.x - 64] = box[127 - threadIdx.x];
    }
}
