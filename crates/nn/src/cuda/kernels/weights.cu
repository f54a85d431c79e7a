// Gradients of matrices: dW = a^T * g over the rows of a chunk, and the column sums of g for the
// bias. Chunks are added up by `gather_gradients`.

struct Job {
  const float* a;   // [rows, k], normalised by `site` where that is not empty
  const float* g;   // [rows, n]
  float* weight;    // chunk 0 of the gradient, [k, n]
  float* bias;      // or null
  Site site;
  int k, n, rows;   // rows: 0 nodes, 1 edges, 2 those of the head
  int chunks;       // into which its rows are divided
  int first;        // number of the first block
};

#define MOST_JOBS 8
struct Jobs {
  Job list[MOST_JOBS];  // by value: blocks need not wait for memory to know what to do
  int count;
  size_t stride;    // between chunks
};

#define DEPTH 32             // rows at a time
#define AHEAD 4              // sets of rows that are under way together
#define SIDE (UNIT + 8)      // of a row in shared memory: no two lanes of a fragment meet in a bank
#define UNIT_THREADS (UNIT * UNIT / 16)
#define UNIT_BLOCKS (KIND == 3 && UNIT <= 80 ? 2 : UNIT <= 64 && TERMS == 1 ? 3 : 1)  // per SM at least, which bounds registers

// Neighbours, at once.
template <int COUNT>
__device__ __forceinline__ void take(float* to, const float* from) {
  if (COUNT == 4) *(float4*)to = *(const float4*)from;
  else if (COUNT == 2) *(float2*)to = *(const float2*)from;
  else *to = *from;
}

// A block takes UNIT x UNIT entries of one matrix over one chunk. While one set of rows is
// multiplied, the next ones are on their way.
extern "C" __global__ void __launch_bounds__(UNIT_THREADS, UNIT_BLOCKS) weigh_gradients(Batch b, const __grid_constant__ Jobs jobs) {
  int number = 0;
  while (number + 1 < jobs.count && (int)blockIdx.x >= jobs.list[number + 1].first) number++;
  const Job& job = jobs.list[number];
  const int across = (job.n + UNIT - 1) / UNIT, unit = (blockIdx.x - job.first) / job.chunks, chunk = (blockIdx.x - job.first) % job.chunks;
  const int k0 = unit / across * UNIT, n0 = unit % across * UNIT;
  const int rows = job.rows == 0 ? b.control->nodes : job.rows == 1 ? b.control->edges : b.control->rows;
  const int per = ((rows + job.chunks - 1) / job.chunks + DEPTH - 1) / DEPTH * DEPTH;
  const int from = min(rows, chunk * per), to = min(rows, from + per);
  const int K = job.k, N = job.n;
  // A thread always copies the same four columns: UNIT / 4 rows are as many copies as there are
  // threads.
  const int c = threadIdx.x % (UNIT / 4) * 4, r0 = threadIdx.x / (UNIT / 4);
  const bool real_a = k0 + c < K, real_g = n0 + c < N;
  const float *a = job.a + (size_t)(from + r0) * K + (real_a ? k0 + c : 0), *dy = job.g + (size_t)(from + r0) * N + (real_g ? n0 + c : 0);
  // Sends the next set of rows; what lies past the end is not read.
  int sent = from + r0;
  auto send = [&](int stage) {
    float *as = shared + stage * 2 * DEPTH * SIDE + r0 * SIDE + c, *gs = as + DEPTH * SIDE;
#pragma unroll
    for (int i = 0; i < DEPTH; i += UNIT / 4) {
      if (DEPTH % (UNIT / 4) != 0 && r0 + i >= DEPTH) break;
      copy_or_zero(as + i * SIDE, a + i * K, sent + i < to && real_a);
      copy_or_zero(gs + i * SIDE, dy + i * N, sent + i < to && real_g);
    }
    sent += DEPTH;
    a += DEPTH * K;
    dy += DEPTH * N;
    end_copies();
  };
#pragma unroll 1
  for (int i = 0; i < AHEAD - 1; i++) send(i);
  // A warp takes HIGH times EACH pieces of 16 x 8, and every HIGH-th step along the rows of a set.
  // Which channels are rows and columns of a piece is free: a lane's are neighbours, 2 * HIGH on
  // the left and RUN on the right, so that it takes them at once.
  constexpr int HIGH = UNIT % 32 == 0 ? 2 : 1, TALL = UNIT / 16 / HIGH, WIDE = UNIT / 8, WARPS = UNIT_THREADS / 32;
  constexpr int SHARE = WARPS / HIGH / TALL > 0 ? WARPS / HIGH / TALL : 1, EACH = WIDE / SHARE, RUN = EACH % 4 == 0 ? 4 : EACH % 2 == 0 ? 2 : 1;
  static_assert(WIDE % SHARE == 0, "every warp has as many pieces");
  float sum[HIGH][EACH][4] = {}, column = 0.f;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, own = warp % (TALL * SHARE), part = warp / (TALL * SHARE);
  const int ki = own / SHARE * 16 * HIGH + lane / 4 * 2 * HIGH, ni = own % SHARE * EACH * 8;
  const bool working = part < HIGH, biased = k0 == 0 && job.bias;
  // Of the channels on the left. Rows past the end become the shift, times a gradient of zero.
  const float* stats = NORM == 1 ? job.site.stats : nullptr;
  float scale[2 * HIGH], shift[2 * HIGH];
#pragma unroll
  for (int i = 0; i < 2 * HIGH; i++) {
    const int k = k0 + ki + i;
    scale[i] = stats && k < K ? stats[2 * D + k] : 1.f;
    shift[i] = stats && k < K ? stats[3 * D + k] : 0.f;
  }
  int stage = 0;
#pragma unroll 1
  for (int base = from; base < to; base += DEPTH) {
    wait_for_copies<AHEAD - 2>();
    __syncthreads();
    send((stage + AHEAD - 1) % AHEAD);
    const float *as = shared + stage * 2 * DEPTH * SIDE, *gs = as + DEPTH * SIDE;
    stage = (stage + 1) % AHEAD;
    if (biased)
#pragma unroll
      for (int r = 0; r < DEPTH; r += UNIT_THREADS / UNIT)
        if (DEPTH % (UNIT_THREADS / UNIT) == 0 || r + threadIdx.x / UNIT < DEPTH) column += gs[(r + threadIdx.x / UNIT) * SIDE + threadIdx.x % UNIT];
    if (working) {
      as += part * STEP * SIDE + ki;
      gs += part * STEP * SIDE + ni + lane / 4 * RUN;
#pragma unroll
      for (int r = 0; r < DEPTH; r += HIGH * STEP) {
        float x[LANE_STEPS][2 * HIGH], y[LANE_STEPS][EACH];
#pragma unroll
        for (int q = 0; q < LANE_STEPS; q++) {
          const int row = (r + lane_step(q)) * SIDE;
          take<2 * HIGH>(x[q], as + row);
#pragma unroll
          for (int i = 0; i < EACH; i += RUN) take<RUN>(y[q] + i, gs + row + i * 8);
        }
        u32 left[HIGH][TERMS][4];
#pragma unroll
        for (int h = 0; h < HIGH; h++) load_left(left[h], [&](int m, int q) { return x[q][2 * h + m] * scale[2 * h + m] + shift[2 * h + m]; });
#pragma unroll
        for (int i = 0; i < EACH; i++) {
          u32 right[TERMS][2];
          load_right(right, [&](int q) { return y[q][i]; });
#pragma unroll
          for (int h = 0; h < HIGH; h++) multiply_all(sum[h][i], left[h], right);
        }
      }
    }
  }
  if (HIGH > 1) {
    // The parts, in their order.
    wait_for_copies<0>();
    __syncthreads();
    float* others = shared + own * 32 + lane;
#pragma unroll
    for (int i = 0; i < HIGH * EACH * 4; i++)
      if (part == 1) others[i * TALL * SHARE * 32] = sum[i / 4 / EACH][i / 4 % EACH][i % 4];
    __syncthreads();
#pragma unroll
    for (int i = 0; i < HIGH * EACH * 4; i++)
      if (part == 0) sum[i / 4 / EACH][i / 4 % EACH][i % 4] += others[i * TALL * SHARE * 32];
  }
  float* weight = job.weight + chunk * jobs.stride;
  if (part == 0)
#pragma unroll
    for (int at = 0; at < 2 * HIGH; at++) {
      const int k = k0 + ki + at;
      float* row = weight + (size_t)k * N;
#pragma unroll
      for (int i = 0; i < EACH; i += RUN)
        if (RUN == 1) {
          const int n = n0 + ni + i * 8 + lane % 4 * 2;
          const float(&v)[4] = sum[at / 2][i];
          if (k < K && n < N) *(float2*)(row + n) = make_float2(v[at % 2 * 2], v[at % 2 * 2 + 1]);
        } else
#pragma unroll
          for (int e = 0; e < 2; e++) {
            const int n = n0 + ni + i * 8 + (lane % 4 * 2 + e) * RUN;
            float v[RUN];
#pragma unroll
            for (int j = 0; j < RUN; j++) v[j] = sum[at / 2][i + j][at % 2 * 2 + e];
            if (k < K && n < N) take<RUN>(row + n, v);
          }
    }
  if (biased) {
    // Every thread has some of a column's rows.
    __shared__ float columns[UNIT_THREADS];
    columns[threadIdx.x] = column;
    __syncthreads();
    if (threadIdx.x < UNIT && n0 + threadIdx.x < N) {
#pragma unroll
      for (int at = UNIT; at < UNIT_THREADS; at += UNIT) column += columns[at + threadIdx.x];
      job.bias[chunk * jobs.stride + n0 + threadIdx.x] = column;
    }
  }
}
