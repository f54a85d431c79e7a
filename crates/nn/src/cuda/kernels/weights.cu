// Gradients of matrices: dW = a^T * g over the rows of a chunk, and the column sums of g for the bias. Chunks are added up by `gather_gradients`.

struct Job {
  const float* a;   // [rows, k], normalised by `site` where that is not empty
  const float* g;   // [rows, n]
  float* weight;    // chunk 0 of the gradient, [k, n]
  float* bias;      // or null
  Site site;
  int k, n, rows;   // rows: 0 nodes, 1 edges, 2 those of the head
  int first;        // number of the first unit
};

struct Jobs {
  const Job* list;
  int count;
  size_t stride;    // between chunks
};

#define DEPTH 32             // rows at a time
#define SIDE (UNIT + 8)      // of a row in shared memory: no two lanes of a fragment meet in a bank
#define UNIT_THREADS (UNIT * UNIT / 16)
#define LOADS ((DEPTH * UNIT / 4 + UNIT_THREADS - 1) / UNIT_THREADS)  // UNIT / 4 divides the threads, so a thread always holds the same columns

// Block (unit, chunk): UNIT x UNIT entries of one matrix. While one set of rows is multiplied, the next is on its way.
extern "C" __global__ void __launch_bounds__(UNIT_THREADS) weigh_gradients(Batch b, Jobs jobs) {
  int number = 0;
  while (number + 1 < jobs.count && (int)blockIdx.x >= jobs.list[number + 1].first) number++;
  const Job& job = jobs.list[number];
  const Site site = job.site;
  const int across = (job.n + UNIT - 1) / UNIT, unit = blockIdx.x - job.first;
  const int k0 = unit / across * UNIT, n0 = unit % across * UNIT, chunk = blockIdx.y;
  const int rows = job.rows == 0 ? b.control->nodes : job.rows == 1 ? b.control->edges : b.control->rows;
  const int per = ((rows + gridDim.y - 1) / gridDim.y + DEPTH - 1) / DEPTH * DEPTH;
  const int from = min(rows, chunk * per), to = min(rows, from + per);
  const int K = job.k, N = job.n;
  __shared__ __align__(16) float as[DEPTH * SIDE], gs[DEPTH * SIDE];
  float column = 0.f;
  float4 x[LOADS], y[LOADS];
  const int column4 = threadIdx.x % (UNIT / 4) * 4;
  auto fetch = [&](int base) {
#pragma unroll
    for (int i = 0; i < LOADS; i++) {
      const int at = threadIdx.x + i * UNIT_THREADS, r = at / (UNIT / 4), c = at % (UNIT / 4) * 4;
      x[i] = y[i] = make_float4(0.f, 0.f, 0.f, 0.f);
      if (r < DEPTH && base + r < to) {
        if (k0 + c < K) x[i] = *(const float4*)(job.a + (size_t)(base + r) * K + k0 + c);
        if (n0 + c < N) y[i] = *(const float4*)(job.g + (size_t)(base + r) * N + n0 + c);
      }
    }
  };
  // Tiles of 16 x 8: a warp takes one row of them, or a part of it.
  constexpr int TALL = UNIT / 16, WIDE = UNIT / 8, WARPS = UNIT_THREADS / 32, SHARE = WARPS / TALL > 0 ? WARPS / TALL : 1, EACH = (WIDE + SHARE - 1) / SHARE;
  float sum[EACH][4] = {};
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, ki = warp / SHARE * 16, ni = warp % SHARE * EACH * 8;
  const bool working = warp < TALL * SHARE;
  const bool normal = NORM == 1 && site.stats && k0 + column4 < K;
  const float4 one = make_float4(1.f, 1.f, 1.f, 1.f), zero = make_float4(0.f, 0.f, 0.f, 0.f);
  const float4 scale = normal ? *(const float4*)(STAT(2) + k0 + column4) : one, shift = normal ? *(const float4*)(STAT(3) + k0 + column4) : zero;
  fetch(from);
  for (int base = from; base < to; base += DEPTH) {
#pragma unroll
    for (int i = 0; i < LOADS; i++) {
      const int at = threadIdx.x + i * UNIT_THREADS, r = at / (UNIT / 4), c = at % (UNIT / 4) * 4;
      if (r < DEPTH) {
        const bool real = base + r < to;
        if (normal) x[i] = make_float4(x[i].x * scale.x + shift.x, x[i].y * scale.y + shift.y, x[i].z * scale.z + shift.z, x[i].w * scale.w + shift.w);
        *(float4*)(as + r * SIDE + c) = real ? x[i] : zero;
        *(float4*)(gs + r * SIDE + c) = y[i];
      }
    }
    __syncthreads();
    fetch(base + DEPTH);
    if (k0 == 0 && job.bias && threadIdx.x < UNIT)
#pragma unroll
      for (int r = 0; r < DEPTH; r++) column += gs[r * SIDE + threadIdx.x];
    if (working)
#pragma unroll
      for (int r = 0; r < DEPTH; r += STEP) {
        u32 left[TERMS][4];
        load_left(left, [&](int m, int kk) { return as[(r + kk) * SIDE + ki + m]; });
#pragma unroll
        for (int i = 0; i < EACH; i++)
          if (WIDE % EACH == 0 || ni + i * 8 < UNIT) {
            u32 right[TERMS][2];
            load_right(right, [&](int kk, int j) { return gs[(r + kk) * SIDE + ni + i * 8 + j]; });
            multiply_all(sum[i], left, right);
          }
      }
    __syncthreads();
  }
  float* weight = job.weight + chunk * jobs.stride;
  const int g = lane / 4, t = lane % 4 * 2;
  if (working)
#pragma unroll
    for (int i = 0; i < EACH; i++) {
      const int k = k0 + ki + g, n = n0 + ni + i * 8 + t;
      if ((WIDE % EACH == 0 || ni + i * 8 < UNIT) && n < N) {
        if (k < K) *(float2*)(weight + (size_t)k * N + n) = make_float2(sum[i][0], sum[i][1]);
        if (k + 8 < K) *(float2*)(weight + (size_t)(k + 8) * N + n) = make_float2(sum[i][2], sum[i][3]);
      }
    }
  if (k0 == 0 && job.bias && threadIdx.x < UNIT && n0 + threadIdx.x < N) job.bias[chunk * jobs.stride + n0 + threadIdx.x] = column;
}
