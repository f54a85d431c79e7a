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
#define AHEAD 4              // sets of rows that are under way together
#define SIDE (UNIT + 8)      // of a row in shared memory: no two lanes of a fragment meet in a bank
#define UNIT_THREADS (UNIT * UNIT / 16)

// Copies sixteen bytes into shared memory, or zeroes.
__device__ __forceinline__ void copy_or_zero(float* to, const float* from, bool real) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"((u32)__cvta_generic_to_shared(to)), "l"(from), "r"(real ? 16 : 0) : "memory");
}

// Block (unit, chunk): UNIT x UNIT entries of one matrix. While one set of rows is multiplied, the next ones are on their way.
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
  // A thread always copies the same four columns: UNIT / 4 rows are as many copies as there are threads.
  const int c = threadIdx.x % (UNIT / 4) * 4, last = max(0, to - 1);
  const float *a = job.a + (k0 + c < K ? k0 + c : 0), *dy = job.g + (n0 + c < N ? n0 + c : 0);
  auto send = [&](int base, int stage) {
    float *as = shared + stage * 2 * DEPTH * SIDE, *gs = as + DEPTH * SIDE;
#pragma unroll
    for (int i = 0; i < (DEPTH * UNIT / 4 + UNIT_THREADS - 1) / UNIT_THREADS; i++) {
      const int r = threadIdx.x / (UNIT / 4) + i * (UNIT / 4), row = base + r;
      if (DEPTH % (UNIT / 4) != 0 && r >= DEPTH) break;
      copy_or_zero(as + r * SIDE + c, a + (size_t)min(row, last) * K, row < to && k0 + c < K);
      copy_or_zero(gs + r * SIDE + c, dy + (size_t)min(row, last) * N, row < to && n0 + c < N);
    }
    asm volatile("cp.async.commit_group;" ::: "memory");
  };
#pragma unroll 1
  for (int i = 0; i < AHEAD - 1; i++) send(from + i * DEPTH, i);
  // Tiles of 16 x 8: a warp takes one row of them, or a part of it.
  constexpr int TALL = UNIT / 16, WIDE = UNIT / 8, WARPS = UNIT_THREADS / 32, SHARE = WARPS / TALL > 0 ? WARPS / TALL : 1, EACH = (WIDE + SHARE - 1) / SHARE;
  float sum[EACH][4] = {}, column = 0.f;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, ki = warp / SHARE * 16, ni = warp % SHARE * EACH * 8;
  const bool working = warp < TALL * SHARE;
  // A lane meets two columns of `a`. Rows past the end become the shift, times a gradient of zero.
  const int first = k0 + ki + lane / 4;
  const bool normal = NORM == 1 && site.stats;
  const float scale0 = normal && first < K ? STAT(2)[first] : 1.f, shift0 = normal && first < K ? STAT(3)[first] : 0.f;
  const float scale1 = normal && first + 8 < K ? STAT(2)[first + 8] : 1.f, shift1 = normal && first + 8 < K ? STAT(3)[first + 8] : 0.f;
  int stage = 0;
#pragma unroll 1
  for (int base = from; base < to; base += DEPTH) {
    asm volatile("cp.async.wait_group %0;" ::"n"(AHEAD - 2) : "memory");
    __syncthreads();
    send(base + (AHEAD - 1) * DEPTH, (stage + AHEAD - 1) % AHEAD);
    const float *as = shared + stage * 2 * DEPTH * SIDE, *gs = as + DEPTH * SIDE;
    stage = (stage + 1) % AHEAD;
    if (k0 == 0 && job.bias && threadIdx.x < UNIT)
#pragma unroll
      for (int r = 0; r < DEPTH; r++) column += gs[r * SIDE + threadIdx.x];
    if (working)
#pragma unroll
      for (int r = 0; r < DEPTH; r += STEP) {
        u32 left[TERMS][4];
        load_left(left, [&](int m, int kk) { return as[(r + kk) * SIDE + ki + m] * (m < 8 ? scale0 : scale1) + (m < 8 ? shift0 : shift1); });
#pragma unroll
        for (int i = 0; i < EACH; i++)
          if (WIDE % EACH == 0 || ni + i * 8 < UNIT) {
            u32 right[TERMS][2];
            load_right(right, [&](int kk, int j) { return gs[(r + kk) * SIDE + ni + i * 8 + j]; });
            multiply_all(sum[i], left, right);
          }
      }
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
