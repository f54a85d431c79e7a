// A layer's two halves on rows of nodes and edges, forward and backward. A block takes a tile of
// ROWS rows of one stream; blocks of both streams are in one launch.
//
//   project:  q, k, v = y * Wqkv; p = y_e * We, with y the normalised input of the layer
//   join:     m = y + attended * Wo + bo
//   feed:     x = y1 + relu(y1 * W1 + b1) * W2 + b2 with y1 = norm1(m); the next layer takes norm2(x)

// One stream's half of a layer.
struct Half {
  const float* x;       // [rows, D] the layer's input before normalisation
  float* projected;     // [rows, 3 * D] of nodes, [rows, D] of edges
  float* attended;      // [rows, D]
  float* middle;        // [rows, D] before the first normalisation
  float* hidden;        // [rows, HIDDEN]
  u32* passed;          // [tiles, THREADS] which of the hidden values that a thread of `feed` computes are above 0; the same thread reads them in the backward pass
  float* out;           // [rows, D] before the second normalisation
  float* normal_in;     // the normalised input, where gradients cannot compute it again tile by tile (layer normalisation)
  float* normal_middle; // the normalised middle likewise
  // Backward pass.
  float* dout;          // gradient of the normalised output, then of `x` normalised
  float* dout_raw;      // of `out`
  float* dhidden;       // of the hidden values before ReLU
  float* dmiddle;       // of the normalised middle
  float* dmiddle_raw;   // of `middle`
  float* dattended;     // of `attended`
  float* dprojected;    // like `projected`
  float* delta;         // [nodes, HEADS] sum of dattended * attended
  const float* jump;    // what the head's gradient adds to the layer's input, or null
  int jump_stride;
  Linear projection, output, first, second;
  Site input, norm1, norm2;
  u32 dropped_attended, dropped_hidden;  // numbers of the dropout sites
};

struct Streams {
  Half node, edge;
  int with_edges;  // whether edges are worked on too
  u32 threshold;   // of dropout, in 65536ths
  float scale;
};

struct Tile {
  int number, part, row0, rows;
  bool edges, idle;
};

// A launch is made for more rows than a batch has. Blocks with work come first, `parts` for each
// tile of nodes and then one for each tile of edges, so that they share the SMs with no idle block.
// Each stream has a tile even without rows, which finishes sums.
__device__ __forceinline__ Tile tile_of(const Batch& b, bool with_edges, int parts = 1) {
  const int node_rows = b.control->nodes, edge_rows = b.control->edges, nodes = tiles_of(node_rows);
  Tile t;
  t.number = blockIdx.x;
  for (t.part = 0; t.part < parts && t.number >= nodes; t.part++) t.number -= nodes;
  t.edges = t.part == parts;
  t.rows = t.edges ? edge_rows : node_rows;
  t.row0 = t.number * ROWS;
  t.idle = t.edges && (!with_edges || t.number >= tiles_of(edge_rows));
  return t;
}

__device__ __forceinline__ const Half& half_of(const Streams& s, const Tile& t) { return t.edges ? s.edge : s.node; }

// Writes the true rows of a tile, or of its first columns, into rows that are STRIDE apart.
template <int STRIDE>
__device__ void store(const float* tile, float* to, int row0, int rows, int width = D) {
  const int p = share_place();
  to += (size_t)row0 * STRIDE;
#pragma unroll
  for (int i = 0; i < SHARES; i++) {
    const int r = share_row(i);
    if (row0 + r < rows && p < width) *(float4*)(to + r * STRIDE + p) = *(const float4*)(tile + r * PADDED(D) + p);
  }
}

// Two neighbours of a row into device memory, if it is a true one.
template <int N>
__device__ __forceinline__ void put_row(float* to, const Tile& t, int r, int p, float2 v) {
  if (t.row0 + r < t.rows) *(float2*)(to + (size_t)(t.row0 + r) * N + p) = v;
}

// Two neighbours of a bias, for every row.
__device__ __forceinline__ auto bias_of(const Linear& linear) {
  const float* bias = linear.bias;
  return [=](int, int p) { return *(const float2*)(bias + p); };
}

// The end of a half layer: the row that it began with, in the tile `y`, where the result goes too.
__device__ __forceinline__ auto joined(float* y) {
  return [=](int r, int p, float2 v, float2 bias) {
    float2* own = (float2*)(y + r * PADDED(D) + p);
    const float2 x = RESIDUAL ? *own : make_float2(0.f, 0.f);
    *own = make_float2(v.x + bias.x + x.x, v.y + bias.y + x.y);
  };
}

// Queries, keys and values are PARTS jobs of their own, where there are edges as large as theirs.
extern "C" __global__ void __launch_bounds__(THREADS, PLACES) project(Batch b, Streams s) {
  constexpr int N = 3 * D / PARTS;
  static_assert(N == D || !EDGE, "edges have D columns");
  const Tile t = tile_of(b, s.with_edges, PARTS);
  if (t.idle) return;
  float* y = tiles_memory();
  const Half& h = half_of(s, t);
  const int part = t.edges ? 0 : t.part;
  // As many columns as the streams have lie together.
  Weights<D, N> weights(h.projection.weight + part * N * WORDS_OF_COLUMN);
  const bool train = b.control->train;
  load_normalised(h.x, h.input, part == 0 && t.number == 0, t.row0, t.rows, train, y);
  if (NORM == 2 && train && part == 0) store<D>(y, h.normal_in, t.row0, t.rows);
  float* to = h.projected + (size_t)t.row0 * (t.edges ? D : 3 * D) + part * N;
  const int stride = t.edges ? D : 3 * D, rows = t.rows - t.row0;
  weights.product<D, N>(y, nothing_else(), [=](int r, int p, float2 v, float2) {
    if (r < rows) *(float2*)(to + r * stride + p) = v;
  });
}

extern "C" __global__ void __launch_bounds__(THREADS, PLACES) join(Batch b, Streams s) {
  const Tile t = tile_of(b, s.with_edges);
  if (t.idle) return;
  const Half& h = half_of(s, t);
  float *a = tiles_memory(), *y = a + ROWS * PADDED(D);
  // Before the weights: the product waits for both.
  fetch_later(h.attended, t.row0, t.rows, a);
  Weights<D, D> weights(h.output.weight);
  // `project` has settled the statistics.
  if (RESIDUAL) put_normalised(fetch(h.x, t.row0, t.rows), h.input, h.input.stats + 2 * D, t.row0, t.rows, y);
  weights.product<D, D>(a, bias_of(h.output), joined(y));
  __syncthreads();
  store<D>(y, h.middle, t.row0, t.rows);
  add_statistics(h.norm1, y, t.number, t.row0, t.rows, b.control->train);
}

// Hidden values come and go D columns at a time: a tile of all of them would leave memory for fewer
// blocks.
__device__ __forceinline__ int hidden_width(int from) { return HIDDEN % D == 0 ? D : min(D, HIDDEN - from); }
static_assert(HIDDEN <= 2 * D, "a thread's hidden values are as many as bits of `passed`");

extern "C" __global__ void __launch_bounds__(THREADS, PLACES) feed(Batch b, Streams s) {
  const Tile t = tile_of(b, s.with_edges);
  if (t.idle) return;
  const Half& h = half_of(s, t);
  float *y = tiles_memory(), *hidden = y + ROWS * PADDED(D);
  __shared__ __align__(8) float first_bias[HIDDEN], second_bias[D];
#pragma unroll 1
  for (int p = threadIdx.x; p < HIDDEN; p += THREADS) copy_value(first_bias + p, h.first.bias + p);
  if (threadIdx.x < D) copy_value(second_bias + threadIdx.x, h.second.bias + threadIdx.x);
  Weights<D, HIDDEN, HIDDEN, D> weights(h.first.weight, h.second.weight);
  const bool train = b.control->train, dropping = DROPOUT && train;
  load_normalised(h.middle, h.norm1, t.number == 0, t.row0, t.rows, train, y);
  if (NORM == 2 && train) store<D>(y, h.normal_middle, t.row0, t.rows);
  const u64 key = dropout_key(b.control, h.dropped_hidden);
  Sums out = {};
  u32 passed = 0;
#pragma unroll 1
  for (int from = 0; from < HIDDEN; from += D) {
    const int width = hidden_width(from);
    Sums sums = {};
    weights.add(y, PADDED(D), D / STEP, width, sums, [] {});
    u32 positive = 0;
#pragma unroll
    for (int i = 0; i < PAIRS; i++) {
      const int r = pair_row(i), c = from + pair_column(i);
      if (HIDDEN % D != 0 && c >= HIDDEN) continue;
      const float2 bias = *(const float2*)(first_bias + c), sum = sums.pair(i);
      float2 v = make_float2(fmaxf(sum.x + bias.x, 0.f), fmaxf(sum.y + bias.y, 0.f));
      if (dropping) {
        if (c < 2 * WIDTH) v.x *= kept(key, t.row0 + r, c, (2 * WIDTH + 3) / 4, s.threshold, s.scale);
        if (c + 1 < 2 * WIDTH) v.y *= kept(key, t.row0 + r, c + 1, (2 * WIDTH + 3) / 4, s.threshold, s.scale);
      }
      *(float2*)(hidden + r * PADDED(D) + c - from) = v;
      positive |= (v.x > 0.f ? 1u : 0u) << 2 * i | (v.y > 0.f ? 2u : 0u) << 2 * i;
    }
    passed |= positive << (from > 0 ? 2 * PAIRS : 0);
    weights.add(hidden, PADDED(D), width / STEP, D, out, [&] {
      if (train) store<HIDDEN>(hidden, h.hidden + from, t.row0, t.rows, width);
    });
  }
  if (train) h.passed[t.number * THREADS + threadIdx.x] = passed;
  const auto join_row = joined(y);
#pragma unroll
  for (int i = 0; i < PAIRS; i++) join_row(pair_row(i), pair_column(i), out.pair(i), *(const float2*)(second_bias + pair_column(i)));
  __syncthreads();
  store<D>(y, h.out, t.row0, t.rows);
  add_statistics(h.norm2, y, t.number, t.row0, t.rows, train);
}

extern "C" __global__ void __launch_bounds__(THREADS, PLACES) feed_backward(Batch b, Streams s) {
  const Tile t = tile_of(b, s.with_edges);
  if (t.idle) return;
  const Half& h = half_of(s, t);
  float *g = tiles_memory(), *wide = g + ROWS * PADDED(D);
  Weights<D, HIDDEN, HIDDEN, D> weights(h.second.transposed, h.first.transposed);
  u32 passed = h.passed[t.number * THREADS + threadIdx.x];
  load_backward(h.norm2, h.dout, h.out, t.number, t.row0, t.rows, g, wide);
  store<D>(g, h.dout_raw, t.row0, t.rows);
  const float scale = DROPOUT ? s.scale : 1.f;
  Sums out = {};
#pragma unroll 1
  for (int from = 0; from < HIDDEN; from += D) {
    const int width = hidden_width(from);
    Sums sums = {};
    weights.add(g, PADDED(D), D / STEP, width, sums, [] {});
#pragma unroll
    for (int i = 0; i < PAIRS; i++) {
      const float2 v = sums.pair(i);
      *(float2*)(wide + pair_row(i) * PADDED(D) + pair_column(i)) = make_float2(passed >> 2 * i & 1 ? v.x * scale : 0.f, passed >> 2 * i & 2 ? v.y * scale : 0.f);
    }
    passed >>= 2 * PAIRS;
    weights.add(wide, PADDED(D), width / STEP, D, out, [&] { store<HIDDEN>(wide, h.dhidden + from, t.row0, t.rows, width); });
  }
  const Before before = NORM == 1 ? fetch_before(h.norm1, h.middle + (size_t)t.row0 * D, D, t.row0, t.rows) : Before();
#pragma unroll
  for (int i = 0; i < PAIRS; i++) {
    float2* own = (float2*)(g + pair_row(i) * PADDED(D) + pair_column(i));
    const float2 x = RESIDUAL ? *own : make_float2(0.f, 0.f), v = out.pair(i);
    *own = make_float2(v.x + x.x, v.y + x.y);
  }
  __syncthreads();
  store<D>(g, h.dmiddle, t.row0, t.rows);
  if (NORM == 1) add_gradient_sums(h.norm1, g, before, t.number, t.row0, t.rows);
}

extern "C" __global__ void __launch_bounds__(THREADS, PLACES) join_backward(Batch b, Streams s) {
  const Tile t = tile_of(b, s.with_edges);
  if (t.idle) return;
  const Half& h = half_of(s, t);
  float *g = tiles_memory(), *out = g + ROWS * PADDED(D);
  Weights<D, D> weights(h.output.transposed);
  load_backward(h.norm1, h.dmiddle, h.middle, t.number, t.row0, t.rows, g, out);
  store<D>(g, h.dmiddle_raw, t.row0, t.rows);
  weights.product<D, D>(g, nothing_else(), [&](int r, int p, float2 v, float2) { *(float2*)(out + r * PADDED(D) + p) = v; });
  __syncthreads();
  if (!t.edges) {
    // With dropout the attended values are already masked, which is what the sum needs.
    for (int at = threadIdx.x; at < ROWS * HEADS; at += THREADS) {
      const int r = at / HEADS, head = at % HEADS;
      if (t.row0 + r < t.rows) {
        float sum = 0.f;
        for (int p = head; p < D; p += HEADS) sum += out[r * PADDED(D) + p] * h.attended[(size_t)(t.row0 + r) * D + p];
        h.delta[(size_t)(t.row0 + r) * HEADS + head] = sum;
      }
    }
    __syncthreads();
  }
  if (DROPOUT) {
    const u64 key = dropout_key(b.control, h.dropped_attended);
    for (int at = threadIdx.x; at < ROWS * D; at += THREADS) {
      const int r = at / D, p = at % D;
      out[r * PADDED(D) + p] *= kept_stream(key, t.row0 + r, p, s.threshold, s.scale);
    }
    __syncthreads();
  }
  store<D>(out, h.dattended, t.row0, t.rows);
}

// Writes the gradient of the layer's normalised input into `dout`, which the layer below takes as
// that of its output.
extern "C" __global__ void __launch_bounds__(THREADS, PLACES) project_backward(Batch b, Streams s, int first) {
  const Tile t = tile_of(b, s.with_edges);
  if (t.idle) return;
  const Half& h = half_of(s, t);
  // Gradients of queries, keys and values take turns in two tiles.
  float *even = tiles_memory(), *out = even + ROWS * PADDED(D);
  const int parts = t.edges ? 1 : 3;
  fetch_later(h.dprojected, t.row0, t.rows, even, parts * D);
  if (!t.edges) fetch_later(h.dprojected + D, t.row0, t.rows, out, 3 * D);
  constexpr int TURN = (D / STEP + CHUNK - 1) / CHUNK;
  Weights<3 * D, D> weights(h.projection.transposed, nullptr, parts * TURN);
  // What the residual and the head bring.
  float2 others[PAIRS];
#pragma unroll
  for (int i = 0; i < PAIRS; i++) {
    const size_t row = t.row0 + pair_row(i);
    const float2 zero = make_float2(0.f, 0.f);
    const float2 x = RESIDUAL && h.dmiddle_raw && row < t.rows ? *(const float2*)(h.dmiddle_raw + row * D + pair_column(i)) : zero;
    const float2 y = h.jump && row < t.rows ? *(const float2*)(h.jump + row * h.jump_stride + pair_column(i)) : zero;
    others[i] = make_float2(x.x + y.x, x.y + y.y);
  }
  Sums sums = {};
#pragma unroll 1
  for (int part = 0; part < parts; part++) {
    // The third part is sent after the first, with the chunk that is STAGES - 1 ahead.
    if (part == 2 && TURN < STAGES - 1) wait_for_all_copies();
    weights.add(part == 1 ? out : even, PADDED(D), D / STEP, D, sums, [&] {
      if (part == 1) fetch_later(h.dprojected + 2 * D, t.row0, t.rows, even, 3 * D);
    });
  }
  const Before before = NORM == 1 && !first ? fetch_before(h.input, h.x + (size_t)t.row0 * D, D, t.row0, t.rows) : Before();
#pragma unroll
  for (int i = 0; i < PAIRS; i++) {
    const float2 v = sums.pair(i);
    *(float2*)(out + pair_row(i) * PADDED(D) + pair_column(i)) = make_float2(v.x + others[i].x, v.y + others[i].y);
  }
  __syncthreads();
  store<D>(out, h.dout, t.row0, t.rows);
  if (NORM == 1 && !first) add_gradient_sums(h.input, out, before, t.number, t.row0, t.rows);
}
