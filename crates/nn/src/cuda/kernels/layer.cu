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
  int node_tiles;  // blocks for nodes; those after are for edges
  u32 threshold;   // of dropout, in 65536ths
  float scale;
};

struct Tile {
  const Half* half;
  int number, row0, rows;
  bool edges, idle;
};

__device__ __forceinline__ Tile tile_of(const Batch& b, const Streams& s) {
  Tile t;
  t.edges = (int)blockIdx.x >= s.node_tiles;
  t.half = t.edges ? &s.edge : &s.node;
  t.number = t.edges ? blockIdx.x - s.node_tiles : blockIdx.x;
  t.rows = t.edges ? b.control->edges : b.control->nodes;
  t.row0 = t.number * ROWS;
  // The first tile works even without rows: it finishes sums.
  t.idle = t.number > 0 && t.row0 >= t.rows;
  return t;
}

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
  for (int at = threadIdx.x; at < ROWS * N / 4; at += THREADS) {
    const int r = at / (N / 4), p = at % (N / 4) * 4;
    *(float4*)(tile + r * PADDED(N) + p) = row0 + r < rows ? *(const float4*)(from + (size_t)(row0 + r) * N + p) : make_float4(0.f, 0.f, 0.f, 0.f);
  }
  __syncthreads();
}

extern __shared__ float shared[];

// Adds a bias, and the row that a half layer began with.
__device__ __forceinline__ auto add_to(const float* y, const float* bias) {
  return [=](int r, int p, float2 v) {
    const float2 b = *(const float2*)(bias + p), x = RESIDUAL ? *(const float2*)(y + r * PADDED(D) + p) : make_float2(0.f, 0.f);
    return make_float2(v.x + b.x + x.x, v.y + b.y + x.y);
  };
}

extern "C" __global__ void __launch_bounds__(THREADS) project(Batch b, Streams s) {
  const Tile t = tile_of(b, s);
  if (t.idle) return;
  float *y = shared, *out = y + ROWS * PADDED(D);
  load_normalised(t.half->x, t.half->input, t.row0, t.rows, y);
  if (NORM == 2 && b.control->train) store<D>(y, t.half->normal_in, t.row0, t.rows);
  if (t.edges) {
    product<D, D>(y, t.half->projection.weight, out);
    __syncthreads();
    store<D>(out, t.half->projected, t.row0, t.rows);
  } else {
    product<D, 3 * D>(y, t.half->projection.weight, out);
    __syncthreads();
    store<3 * D>(out, t.half->projected, t.row0, t.rows);
  }
}

extern "C" __global__ void __launch_bounds__(THREADS) join(Batch b, Streams s) {
  const Tile t = tile_of(b, s);
  if (t.idle) return;
  float *a = shared, *y = a + ROWS * PADDED(D), *out = y + ROWS * PADDED(D);
  if (RESIDUAL) load_normalised(t.half->x, t.half->input, t.row0, t.rows, y);
  load<D>(t.half->attended, a, t.row0, t.rows);
  product<D, D>(a, t.half->output.weight, out, add_to(y, t.half->output.bias));
  __syncthreads();
  store<D>(out, t.half->middle, t.row0, t.rows);
  add_statistics(t.half->norm1, out, t.number, t.row0, t.rows, b.control->train);
}

extern "C" __global__ void __launch_bounds__(THREADS) feed(Batch b, Streams s) {
  const Tile t = tile_of(b, s);
  if (t.idle) return;
  float *y = shared, *hidden = y + ROWS * PADDED(D), *out = hidden + ROWS * PADDED(HIDDEN);
  load_normalised(t.half->middle, t.half->norm1, t.row0, t.rows, y);
  if (NORM == 2 && b.control->train) store<D>(y, t.half->normal_middle, t.row0, t.rows);
  const bool train = b.control->train, dropping = s.threshold > 0 && train;
  const u64 key = dropout_key(b.control, t.half->dropped_hidden);
  const float* bias = t.half->first.bias;
  product<D, HIDDEN>(y, t.half->first.weight, hidden, [&](int r, int c, float2 v) {
    const float2 own = *(const float2*)(bias + c);
    v = make_float2(fmaxf(v.x + own.x, 0.f), fmaxf(v.y + own.y, 0.f));
    if (dropping) {
      if (c < 2 * WIDTH) v.x *= kept(key, t.row0 + r, c, (2 * WIDTH + 3) / 4, s.threshold, s.scale);
      if (c + 1 < 2 * WIDTH) v.y *= kept(key, t.row0 + r, c + 1, (2 * WIDTH + 3) / 4, s.threshold, s.scale);
    }
    return v;
  });
  __syncthreads();
  if (train) store<HIDDEN>(hidden, t.half->hidden, t.row0, t.rows);
  product<HIDDEN, D>(hidden, t.half->second.weight, out, add_to(y, t.half->second.bias));
  __syncthreads();
  store<D>(out, t.half->out, t.row0, t.rows);
  add_statistics(t.half->norm2, out, t.number, t.row0, t.rows, train);
}

extern "C" __global__ void __launch_bounds__(THREADS) feed_backward(Batch b, Streams s) {
  const Tile t = tile_of(b, s);
  if (t.idle) return;
  const Half& h = *t.half;
  float *g = shared, *wide = g + ROWS * PADDED(D), *out = wide + ROWS * PADDED(HIDDEN);
  load_backward(h.norm2, h.dout, h.out, t.number, t.row0, t.rows, g, out);
  store<D>(g, h.dout_raw, t.row0, t.rows);
  const float scale = s.threshold > 0 ? s.scale : 1.f;
  product<D, HIDDEN>(g, h.second.transposed, wide, [&](int r, int c, float2 v) {
    if (t.row0 + r >= t.rows) return make_float2(0.f, 0.f);
    const float2 on = *(const float2*)(h.hidden + (size_t)(t.row0 + r) * HIDDEN + c);
    return make_float2(on.x > 0.f ? v.x * scale : 0.f, on.y > 0.f ? v.y * scale : 0.f);
  });
  __syncthreads();
  store<HIDDEN>(wide, h.dhidden, t.row0, t.rows);
  product<HIDDEN, D>(wide, h.first.transposed, out, [&](int r, int p, float2 v) {
    const float2 x = RESIDUAL ? *(const float2*)(g + r * PADDED(D) + p) : make_float2(0.f, 0.f);
    return make_float2(v.x + x.x, v.y + x.y);
  });
  __syncthreads();
  store<D>(out, h.dmiddle, t.row0, t.rows);
  if (NORM == 1) add_gradient_sums(h.norm1, out, h.middle, t.number, t.row0, t.rows);
}

extern "C" __global__ void __launch_bounds__(THREADS) join_backward(Batch b, Streams s) {
  const Tile t = tile_of(b, s);
  if (t.idle) return;
  const Half& h = *t.half;
  float *g = shared, *out = g + ROWS * PADDED(D);
  load_backward(h.norm1, h.dmiddle, h.middle, t.number, t.row0, t.rows, g, out);
  store<D>(g, h.dmiddle_raw, t.row0, t.rows);
  product<D, D>(g, h.output.transposed, out);
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
  if (s.threshold > 0) {
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
  const Tile t = tile_of(b, s);
  if (t.idle) return;
  const Half& h = *t.half;
  float *g = shared, *out = g + ROWS * (t.edges ? PADDED(D) : PADDED(3 * D));
  // What the residual and the head bring.
  const auto others = [&](int r, int p, float2 v) {
    const size_t row = t.row0 + r;
    if (row >= t.rows) return make_float2(0.f, 0.f);
    const float2 zero = make_float2(0.f, 0.f);
    const float2 x = RESIDUAL && h.dmiddle_raw ? *(const float2*)(h.dmiddle_raw + row * D + p) : zero;
    const float2 y = h.jump ? *(const float2*)(h.jump + row * h.jump_stride + p) : zero;
    return make_float2(v.x + x.x + y.x, v.y + x.y + y.y);
  };
  if (t.edges) {
    load<D>(h.dprojected, g, t.row0, t.rows);
    product<D, D>(g, h.projection.transposed, out, others);
  } else {
    load<3 * D>(h.dprojected, g, t.row0, t.rows);
    product<3 * D, D>(g, h.projection.transposed, out, others);
  }
  __syncthreads();
  store<D>(out, h.dout, t.row0, t.rows);
  if (NORM == 1 && !first) add_gradient_sums(h.input, out, h.x, t.number, t.row0, t.rows);
}
