// Algorithms with known results: nvcc -arch=sm_80 -ptx parallel.cu
extern "C" {
__global__ void vector_add(const float *a, const float *b, float *c, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}

__global__ void reduce(const int *in, int *out, int n) {
    __shared__ int partial[32];
    int total = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) total += in[i];
    for (int step = 16; step; step >>= 1) total += __shfl_down_sync(~0u, total, step);
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = total;
    __syncthreads();
    if (threadIdx.x < 32) {
        total = threadIdx.x < (blockDim.x + 31) / 32 ? partial[threadIdx.x] : 0;
        for (int step = 16; step; step >>= 1) total += __shfl_xor_sync(~0u, total, step);
        if (threadIdx.x == 0) atomicAdd(out, total);
    }
}

__global__ void scan(const unsigned *in, unsigned *out) {
    extern __shared__ unsigned work[];
    unsigned i = threadIdx.x;
    work[i] = in[blockIdx.x * blockDim.x + i];
    __syncthreads();
    for (unsigned step = 1; step < blockDim.x; step *= 2) {
        unsigned before = i >= step ? work[i - step] : 0;
        __syncthreads();
        work[i] += before;
        __syncthreads();
    }
    out[blockIdx.x * blockDim.x + i] = work[i];
}

__global__ void histogram(const unsigned char *in, unsigned *bins, int n) {
    __shared__ unsigned local[256];
    for (int i = threadIdx.x; i < 256; i += blockDim.x) local[i] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) atomicAdd(&local[in[i]], 1);
    __syncthreads();
    for (int i = threadIdx.x; i < 256; i += blockDim.x)
        if (local[i]) atomicAdd(&bins[i], local[i]);
}

__global__ void bitonic_sort(int *data) {
    __shared__ int work[512];
    unsigned i = threadIdx.x;
    work[i] = data[blockIdx.x * 512 + i];
    for (unsigned size = 2; size <= 512; size *= 2)
        for (unsigned step = size / 2; step; step /= 2) {
            __syncthreads();
            unsigned other = i ^ step;
            if (other > i) {
                bool up = (i & size) == 0;
                int a = work[i], b = work[other];
                if ((a > b) == up) { work[i] = b; work[other] = a; }
            }
        }
    __syncthreads();
    data[blockIdx.x * 512 + i] = work[i];
}

__global__ void transpose(const float *in, float *out, int width, int height) {
    __shared__ float tile[32][33];
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
    for (int j = 0; j < 32; j += 8)
        if (x < width && y + j < height) tile[threadIdx.y + j][threadIdx.x] = in[(y + j) * width + x];
    __syncthreads();
    x = blockIdx.y * 32 + threadIdx.x;
    y = blockIdx.x * 32 + threadIdx.y;
    for (int j = 0; j < 32; j += 8)
        if (x < height && y + j < width) out[(y + j) * height + x] = tile[threadIdx.x][threadIdx.y + j];
}

__global__ void matmul(const float *a, const float *b, float *c, int n) {
    __shared__ float ta[16][16], tb[16][16];
    int row = blockIdx.y * 16 + threadIdx.y, column = blockIdx.x * 16 + threadIdx.x;
    float total = 0;
    for (int tile = 0; tile < n; tile += 16) {
        ta[threadIdx.y][threadIdx.x] = a[row * n + tile + threadIdx.x];
        tb[threadIdx.y][threadIdx.x] = b[(tile + threadIdx.y) * n + column];
        __syncthreads();
        for (int k = 0; k < 16; ++k) total = __fmaf_rn(ta[threadIdx.y][k], tb[k][threadIdx.x], total);
        __syncthreads();
    }
    c[row * n + column] = total;
}

__global__ void gravity(const float4 *bodies, float4 *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float4 me = bodies[i];
    float x = 0, y = 0, z = 0;
    for (int j = 0; j < n; ++j) {
        float4 other = bodies[j];
        float dx = other.x - me.x, dy = other.y - me.y, dz = other.z - me.z;
        float inverse = rsqrtf(dx * dx + dy * dy + dz * dz + 0.01f);
        float force = other.w * inverse * inverse * inverse;
        x += dx * force; y += dy * force; z += dz * force;
    }
    out[i] = make_float4(x, y, z, 0);
}

__global__ void vote_count(const int *in, unsigned *out) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x, warp = i / 32;
    int odd = in[i] & 1;
    unsigned ballot = __ballot_sync(~0u, odd), matched = __match_any_sync(~0u, in[i] % 3);
    int all = __all_sync(~0u, in[i] < 1000), any = __any_sync(~0u, in[i] == 77);
    if (threadIdx.x % 32 == 0) {
        out[warp * 4] = ballot; out[warp * 4 + 1] = all; out[warp * 4 + 2] = any;
        out[warp * 4 + 3] = __popc(matched);
    }
}

__global__ void block_votes(const int *in, int *out) {
    int value = in[blockIdx.x * blockDim.x + threadIdx.x];
    int count = __syncthreads_count(value > 0), all = __syncthreads_and(value > -100), any = __syncthreads_or(value == 7);
    out[blockIdx.x * blockDim.x + threadIdx.x] = count * 4 + all * 2 + any;
}

__global__ void early_return(int *out, int n) {
    if (threadIdx.x >= n) return;
    __shared__ int last;
    if (threadIdx.x == n - 1) last = blockIdx.x * 100 + n;
    __syncthreads();
    out[blockIdx.x * blockDim.x + threadIdx.x] = last;
}

__global__ void producer_consumer(int *out) {
    __shared__ int box[64];
    if (threadIdx.x < 64) {
        box[threadIdx.x] = threadIdx.x * 3;
        asm volatile("bar.arrive 1, 128;" ::: "memory");
    } else {
        asm volatile("bar.sync 1, 128;" ::: "memory");
        out[blockIdx.x * 64 + threadIdx.x - 64] = box[127 - threadIdx.x];
    }
}

__global__ void spin_lock(int *lock, int *counter) {
    bool done = false;
    while (!done) {
        if (atomicCAS(lock, 0, 1) == 0) {
            *(volatile int *)counter += 1;
            __threadfence();
            atomicExch(lock, 0);
            done = true;
        }
    }
}

__global__ void plain_spin_lock(int *lock, int *counter) {
    while (atomicCAS(lock, 0, 1) != 0) { }
    *(volatile int *)counter += 1;
    __threadfence();
    atomicExch(lock, 0);
}
}
