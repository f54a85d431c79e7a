// A layer's two halves on rows of nodes and edges, forward and backward. A block takes a tile of ROWS rows of one stream; blocks of both streams are in one launch.
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
  float* out;           // [rows, D] before the second normalisation
  float* normal_in;     // the normalised input, where gradients cannot compute it again tile by tile (layer normalisation)
  float* normal_middle; // the normalised middle likewise
  // Going back.
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
  int number, row0, rows;
  bool edges, idle;
};

// A launch is made for more rows than a batch has: blocks with work come first, `parts` for each tile of nodes and then one for each of edges, so that they have the processors
// for themselves. Each stream has a tile even without rows: it finishes sums.
__device__ __forceinline__ Tile tile_of(const Batch& b, bool with_edges, int parts = 1) {
  const int node_rows = b.control->nodes, edge_rows = b.control->edges, nodes = tiles_of(node_rows), past = (int)blockIdx.x - parts * nodes;
  Tile t;
  t.edges = past >= 0;
  t.number = t.edges ? past : blockIdx.x % nodes;
  t.rows = t.edges ? edge_rows : node_rows;
  t.row0 = t.number * ROWS;
  t.idle = t.edges && (!with_edges || past >= tiles_of(edge_rows));
  return t;
}

__device__ __forceinline__ const Half& half_of(const Streams& s, const Tile& t) { return t.edges ? s.edge : s.node; }

// Writes the true rows of a tile in shared memory.
template <int N>
__device__ void store(const float* tile, float* to, int row0, int rows) {
  for (int at = threadIdx.x; at < ROWS * N / 4; at += THREADS) {
    const int r = at / (N / 4), p = at % (N / 4) * 4;
    if (row0 + r < rows) *(float4*)(to + (size_t)(row0 + r) * N + p) = *(const float4*)(tile + r * PADDED(N) + p);
  }
}

template <int N>
__device__ void load(const float* from, float* tile, int row0, int rows) {
#pragma unroll
  for (int at = threadIdx.x; at < ROWS * N / 4; at += THREADS) {
    const int r = at / (N / 4), p = at % (N / 4) * 4;
    *(float4*)(tile + r * PADDED(N) + p) = row0 + r < rows ? *(const float4*)(from + (size_t)(row0 + r) * N + p) : make_float4(0.f, 0.f, 0.f, 0.f);
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

// Queries, keys and values are PARTS jobs of their own.
extern "C" __global__ void __launch_bounds__(THREADS) project(Batch b, Streams s) {
  constexpr int N = 3 * D / PARTS;
  const Tile t = tile_of(b, s.with_edges, PARTS);
  if (t.idle) return;
  const int part = t.edges ? 0 : blockIdx.x / tiles_of(t.rows);
  float* y = tiles_memory();
  const Half& h = half_of(s, t);
  const bool train = b.control->train, first = part == 0;
  const auto begin = [&] {
    load_normalised(h.x, h.input, first && t.number == 0, t.row0, t.rows, train, y);
    if (NORM == 2 && train && first) store<D>(y, h.normal_in, t.row0, t.rows);
  };
  if (t.edges) {
    Weights<D, D> weights(h.projection.weight);
    begin();
    weights.product<D, D>(y, nothing_else(), [&](int r, int p, float2 v, float2) { put_row<D>(h.projected, t, r, p, v); });
  } else {
    // As many columns as the streams have lie together.
    Weights<D, N> weights(h.projection.weight + part * N * WORDS_OF_COLUMN);
    begin();
    weights.product<D, N>(y, nothing_else(), [&](int r, int p, float2 v, float2) { put_row<3 * D>(h.projected + part * N, t, r, p, v); });
  }
}

extern "C" __global__ void __launch_bounds__(THREADS) join(Batch b, Streams s) {
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

extern "C" __global__ void __launch_bounds__(THREADS) feed(Batch b, Streams s) {
  const Tile t = tile_of(b, s.with_edges);
  if (t.idle) return;
  const Half& h = half_of(s, t);
  float *y = tiles_memory(), *hidden = y + ROWS * PADDED(D);
  Weights<D, HIDDEN, HIDDEN, D> weights(h.first.weight, h.second.weight);
  const bool train = b.control->train, dropping = DROPOUT && train;
  load_normalised(h.middle, h.norm1, t.number == 0, t.row0, t.rows, train, y);
  if (NORM == 2 && train) store<D>(y, h.normal_middle, t.row0, t.rows);
  const u64 key = dropout_key(b.control, h.dropped_hidden);
  weights.product<D, HIDDEN>(y, bias_of(h.first), [&](int r, int c, float2 v, float2 own) {
    v = make_float2(fmaxf(v.x + own.x, 0.f), fmaxf(v.y + own.y, 0.f));
    if (dropping) {
      if (c < 2 * WIDTH) v.x *= kept(key, t.row0 + r, c, (2 * WIDTH + 3) / 4, s.threshold, s.scale);
      if (c + 1 < 2 * WIDTH) v.y *= kept(key, t.row0 + r, c + 1, (2 * WIDTH + 3) / 4, s.threshold, s.scale);
    }
    *(float2*)(hidden + r * PADDED(HIDDEN) + c) = v;
  });
  weights.product<HIDDEN, D>(hidden, bias_of(h.second), joined(y));
  __syncthreads();
  store<D>(y, h.out, t.row0, t.rows);
  if (train) store<HIDDEN>(hidden, h.hidden, t.row0, t.rows);
  add_statistics(h.norm2, y, t.number, t.row0, t.rows, train);
}

extern "C" __global__ void __launch_bounds__(THREADS) feed_backward(Batch b, Streams s) {
  const Tile t = tile_of(b, s.with_edges);
  if (t.idle) return;
  const Half& h = half_of(s, t);
  float *g = tiles_memory(), *wide = g + ROWS * PADDED(D);
  Weights<D, HIDDEN, HIDDEN, D> weights(h.second.transposed, h.first.transposed);
  load_backward(h.norm2, h.dout, h.out, t.number, t.row0, t.rows, g, wide);
  store<D>(g, h.dout_raw, t.row0, t.rows);
  const float scale = DROPOUT ? s.scale : 1.f;
  const auto hidden = [&](int r, int c) {
    const size_t row = t.row0 + r;
    return row < t.rows ? *(const float2*)(h.hidden + row * HIDDEN + c) : make_float2(0.f, 0.f);
  };
  weights.product<D, HIDDEN>(g, hidden, [&](int r, int c, float2 v, float2 on) {
    v = make_float2(on.x > 0.f ? v.x * scale : 0.f, on.y > 0.f ? v.y * scale : 0.f);
    *(float2*)(wide + r * PADDED(HIDDEN) + c) = v;
  });
  weights.product<HIDDEN, D>(wide, nothing_else(), [&](int r, int p, float2 v, float2) {
    float2* own = (float2*)(g + r * PADDED(D) + p);
    const float2 x = RESIDUAL ? *own : make_float2(0.f, 0.f);
    *own = make_float2(v.x + x.x, v.y + x.y);
  });
  __syncthreads();
  store<D>(g, h.dmiddle, t.row0, t.rows);
  store<HIDDEN>(wide, h.dhidden, t.row0, t.rows);
  if (NORM == 1) add_gradient_sums(h.norm1, g, h.middle + (size_t)t.row0 * D, D, t.number, t.row0, t.rows);
}

extern "C" __global__ void __launch_bounds__(THREADS) join_backward(Batch b, Streams s) {
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

// Writes the gradient of the layer's normalised input into `dout`, which the layer below takes as that of its output.
extern "C" __global__ void __launch_bounds__(THREADS) project_backward(Batch b, Streams s, int first) {
  const Tile t = tile_of(b, s.with_edges);
  if (t.idle) return;
  const Half& h = half_of(s, t);
  float *out = tiles_memory(), *g = out + ROWS * PADDED(D);
  // What the residual and the head bring.
  const auto others = [&](int r, int p) {
    const size_t row = t.row0 + r;
    const float2 zero = make_float2(0.f, 0.f);
    if (row >= t.rows) return zero;
    const float2 x = RESIDUAL && h.dmiddle_raw ? *(const float2*)(h.dmiddle_raw + row * D + p) : zero;
    const float2 y = h.jump ? *(const float2*)(h.jump + row * h.jump_stride + p) : zero;
    return make_float2(x.x + y.x, x.y + y.y);
  };
  const auto add = [&](int r, int p, float2 v, float2 other) {
    v = make_float2(v.x + other.x, v.y + other.y);
    *(float2*)(out + r * PADDED(D) + p) = v;
  };
  if (t.edges) {
    Weights<D, D> weights(h.projection.transposed);
    load<D>(h.dprojected, g, t.row0, t.rows);
    weights.product<D, D>(g, others, add);
  } else {
    Weights<3 * D, D> weights(h.projection.transposed);
    load<3 * D>(h.dprojected, g, t.row0, t.rows);
    weights.product<3 * D, D>(g, others, add);
  }
  __syncthreads();
  store<D>(out, h.dout, t.row0, t.rows);
  if (NORM == 1 && !first) add_gradient_sums(h.input, out, h.x + (size_t)t.row0 * D, D, t.number, t.row0, t.rows);
}
