// The head: what it reads of the streams, a multi-layer perceptron, the loss, and back.

// Normalises a layer's output into the rows that the head reads: next to other layers' (column,
// stride), or added to them. For the last layer one block more settles the statistics of the other
// stream, which nothing reads.
extern "C" __global__ void __launch_bounds__(THREADS) read_rows(Batch b, const float* x, Site site, Site other, float* source, int column, int stride, int add, int last) {
  const Control* control = b.control;
  __shared__ __align__(16) float found[2 * D];
  if (last && blockIdx.x + 1 == gridDim.x) {
    find_statistics(other, other.edges ? control->edges : control->nodes, control->train, true, found);
    return;
  }
  const int rows = site.edges ? control->edges : control->nodes, row0 = blockIdx.x * ROWS;
  if (blockIdx.x > 0 && row0 >= rows) return;
  float* tile = tiles_memory();
  const Share own = fetch(x, row0, rows);
  put_normalised(own, site, find_statistics(site, rows, control->train, last && blockIdx.x == 0, found), row0, rows, tile);
  for (int at = threadIdx.x; at < ROWS * D; at += THREADS) {
    const int r = at / D, p = at % D;
    if (row0 + r < rows) {
      float* to = source + (size_t)(row0 + r) * stride + column + p;
      *to = (add ? *to : 0.f) + tile[r * PADDED(D) + p];
    }
  }
}

// One row out of a graph's nodes; readout: 0 mean, 1 sum, 2 largest. A block per graph.
extern "C" __global__ void pool(Batch b, const float* source, int width, int readout, float* joined, int* largest) {
  const int g = blockIdx.x;
  if (g >= b.control->graphs) return;
  const int from = b.node_start[g], to = b.node_start[g + 1];
  for (int p = threadIdx.x; p < width; p += blockDim.x) {
    float value = 0.f;
    int place = -1;
#pragma unroll 4
    for (int i = from; i < to; i++) {
      const float v = source[(size_t)i * width + p];
      if (readout != 2) value += v;
      else if (place < 0 || v > value) value = v, place = i;
    }
    if (readout == 0 && to > from) value /= to - from;
    joined[(size_t)g * width + p] = value;
    if (readout == 2) largest[(size_t)g * width + p] = place;
  }
}

// Rows of an edge's source and target, concatenated.
extern "C" __global__ void pair_up(Batch b, const float* source, int width, float* joined) {
  const int edges = b.control->edges;
  for (int e = blockIdx.x; e < edges; e += gridDim.x)
    for (int p = threadIdx.x; p < 2 * width; p += blockDim.x)
      joined[(size_t)e * 2 * width + p] = source[(size_t)(p < width ? b.source[e] : b.target[e]) * width + p % width];
}

struct HeadLayer {
  Linear linear;
  float* out;    // [rows, width]
  float* dout;   // gradient before ReLU
  int inner, width; // padded
};

struct Head {
  const float* input;  // [rows, layers[0].inner]
  float* dinput;
  HeadLayer layers[8];
  int count, widest;
};

#define HEAD_ROWS 4

// A block takes four rows through all layers.
extern "C" __global__ void head_forward(Batch b, Head head) {
  const int rows = b.control->rows, row0 = blockIdx.x * HEAD_ROWS;
  if (row0 >= rows) return;
  int in = head.layers[0].inner;
  float *x = shared, *y = shared + HEAD_ROWS * head.widest;
  for (int at = threadIdx.x; at < HEAD_ROWS * in; at += blockDim.x) x[at] = row0 + at / in < rows ? head.input[(size_t)row0 * in + at] : 0.f;
  __syncthreads();
  for (int l = 0; l < head.count; l++) {
    const HeadLayer& layer = head.layers[l];
    const int width = layer.width;
    for (int at = threadIdx.x; at < HEAD_ROWS * width; at += blockDim.x) {
      const int r = at / width, c = at % width;
      float sum = layer.linear.bias[c];
#pragma unroll 16
      for (int k = 0; k < in; k++) sum += x[r * in + k] * __ldg(layer.linear.weight + k * width + c);
      if (l + 1 < head.count) sum = fmaxf(sum, 0.f);
      y[at] = sum;
      if (row0 + r < rows) layer.out[(size_t)row0 * width + at] = sum;
    }
    __syncthreads();
    float* other = x;
    x = y;
    y = other;
    in = width;
  }
}

extern "C" __global__ void head_backward(Batch b, Head head) {
  const int rows = b.control->rows, row0 = blockIdx.x * HEAD_ROWS;
  if (row0 >= rows) return;
  float *g = shared, *dx = shared + HEAD_ROWS * head.widest;
  const HeadLayer& last = head.layers[head.count - 1];
  for (int at = threadIdx.x; at < HEAD_ROWS * last.width; at += blockDim.x) g[at] = row0 + at / last.width < rows ? last.dout[(size_t)row0 * last.width + at] : 0.f;
  __syncthreads();
  for (int l = head.count - 1; l >= 0; l--) {
    const HeadLayer& layer = head.layers[l];
    const int width = layer.width, in = layer.inner;
    float* to = l > 0 ? head.layers[l - 1].dout : head.dinput;
    const float* before = l > 0 ? head.layers[l - 1].out : nullptr;
    for (int at = threadIdx.x; at < HEAD_ROWS * in; at += blockDim.x) {
      const int r = at / in, k = at % in;
      float sum = 0.f;
#pragma unroll 16
      for (int c = 0; c < width; c++) sum += g[r * width + c] * __ldg(layer.linear.transposed + c * in + k);
      if (row0 + r < rows) {
        if (before && before[(size_t)row0 * in + at] <= 0.f) sum = 0.f;
        to[(size_t)row0 * in + at] = sum;
      }
      dx[at] = sum;
    }
    __syncthreads();
    float* other = g;
    g = dx;
    dx = other;
  }
}

// Which row of the head's gradient a row of the stream gets, and its share.
struct Spread {
  const float* dinput;  // gradient of the head's input
  const int* largest;
  int width;            // of a source row
  int reads;            // 0 graphs, 1 nodes, 2 edges, 3 pairs
  int readout;
};

// Gradient of the rows that the head read. [rows, width]
extern "C" __global__ void spread(Batch b, Spread of, float* dsource) {
  const int rows = of.reads == 2 ? b.control->edges : b.control->nodes;
  for (int r = blockIdx.x; r < rows; r += gridDim.x)
    for (int p = threadIdx.x; p < of.width; p += blockDim.x) {
      float v = 0.f;
      if (of.reads == 0) {
        const int g = b.node_graph[r];
        v = of.dinput[(size_t)g * of.width + p];
        if (of.readout == 0) v /= b.node_start[g + 1] - b.node_start[g];
        if (of.readout == 2 && of.largest[(size_t)g * of.width + p] != r) v = 0.f;
      } else if (of.reads == 3) {
        for (int e = b.in_start[r]; e < b.in_start[r + 1]; e++) v += of.dinput[(size_t)e * 2 * of.width + of.width + p];
        for (int at = b.out_start[r]; at < b.out_start[r + 1]; at++) v += of.dinput[(size_t)b.out_edge[at] * 2 * of.width + p];
      } else {
        v = of.dinput[(size_t)r * of.width + p];
      }
      dsource[(size_t)r * of.width + p] = v;
    }
}

// The last layer's output gets its part of it; sums for its normalisation.
extern "C" __global__ void __launch_bounds__(THREADS) enter_backward(Batch b, Half h, int edges, const float* dsource, int stride) {
  const int rows = edges ? b.control->edges : b.control->nodes, row0 = blockIdx.x * ROWS;
  if (blockIdx.x > 0 && row0 >= rows) return;
  float* tile = tiles_memory();
  for (int at = threadIdx.x; at < ROWS * D; at += THREADS) {
    const int r = at / D, p = at % D;
    tile[r * PADDED(D) + p] = dsource && row0 + r < rows ? dsource[(size_t)(row0 + r) * stride + p] : 0.f;
  }
  __syncthreads();
  store<D>(tile, h.dout, row0, rows);
  if (NORM == 1) add_gradient_sums(h.norm2, tile, fetch_before(h.norm2, h.out + (size_t)row0 * D, D, row0, rows), blockIdx.x, row0, rows);
}

struct Labels {
  const float* floats;  // [rows of the data set, columns]; NaN: missing
  const u32* classes;   // likewise; the largest number: missing
  int columns;
  int level;            // rows: 0 graphs, 1 nodes, 2 edges
  int kind;             // 0 L1, 1 squares, 2 cross-entropy, 3 weighted cross-entropy, 4 binary cross-entropy
  int width, padded;    // of the output
};

#define MISSING 0xffffffffu

__device__ __forceinline__ int label_row(const Batch& b, const Labels& labels, int r) {
  return labels.level == 0 ? b.graph_id[r] : labels.level == 1 ? b.node_row[r] : b.edge_row[r];
}

extern "C" __global__ void count_labels(Batch b, const Labels* of, u32* class_counts) {
  const Labels labels = *of;
  const size_t all = (size_t)b.control->rows * labels.columns;
  for (size_t at = blockIdx.x * blockDim.x + threadIdx.x; at < all; at += gridDim.x * blockDim.x) {
    const size_t place = (size_t)label_row(b, labels, (int)(at / labels.columns)) * labels.columns + at % labels.columns;
    if (labels.kind < 2) {
      if (!isnan(labels.floats[place])) atomicAdd(&b.control->labels, 1);
    } else if (labels.classes[place] != MISSING) {
      atomicAdd(&b.control->labels, 1);
      if (labels.kind != 4) atomicAdd(class_counts + labels.classes[place], 1);
    }
  }
}

// Loss and gradient of the outputs; outputs and the batch's loss go to where the CPU reads them at
// the end of the epoch. A thread per row.
extern "C" __global__ void loss(Batch b, const Labels* of, const u32* class_counts, const float* out, float* dout, float* outputs, double* losses, double* partial, u32* ticket) {
  Control* control = b.control;
  const Labels labels = *of;
  const int rows = control->rows, r = blockIdx.x * blockDim.x + threadIdx.x;
  const int blocks = max(1, (rows + (int)blockDim.x - 1) / (int)blockDim.x);
  if ((int)blockIdx.x >= blocks) return;
  double value = 0.0;
  if (r < rows) {
    const float* x = out + (size_t)r * labels.padded;
    float* g = dout ? dout + (size_t)r * labels.padded : nullptr;
    const size_t place = (size_t)label_row(b, labels, r) * labels.columns;
    if (g)
      for (int c = 0; c < labels.padded; c++) g[c] = 0.f;
    for (int c = 0; c < labels.width; c++) outputs[(size_t)(control->row_base + r) * labels.width + c] = x[c];
    const double share = 1.0 / max(control->labels, 1u);
    if (labels.kind < 2) {
      for (int c = 0; c < labels.width; c++) {
        const float t = labels.floats[place + c];
        if (isnan(t)) continue;
        const double off = (double)x[c] - t;
        value += (labels.kind == 0 ? fabs(off) : off * off) * share;
        if (g) g[c] = (float)((labels.kind == 0 ? (off > 0.0) - (off < 0.0) : 2.0 * off) * share);
      }
    } else if (labels.kind == 4) {
      for (int c = 0; c < labels.width; c++) {
        const u32 t = labels.classes[place + c];
        if (t == MISSING) continue;
        const double v = x[c], y = t > 0 ? 1.0 : 0.0;
        value += (fmax(v, 0.0) - v * y + log1p(exp(-fabs(v)))) * share;
        if (g) g[c] = (float)((1.0 / (1.0 + exp(-v)) - y) * share);
      }
    } else if (labels.classes[place] != MISSING) {
      const int t = labels.classes[place];
      const double all = control->labels;
      double total = 0.0;
      for (int c = 0; c < labels.width; c++) total += class_counts[c] * (labels.kind == 3 ? (all - class_counts[c]) / all : 1.0);
      if (total > 0.0) {
        const double own = (labels.kind == 3 ? (all - class_counts[t]) / all : 1.0) / total;
        double highest = x[0], normal = 0.0;
        for (int c = 1; c < labels.width; c++) highest = fmax(highest, (double)x[c]);
        for (int c = 0; c < labels.width; c++) normal += exp(x[c] - highest);
        value = own * (log(normal) + highest - x[t]);
        if (g)
          for (int c = 0; c < labels.width; c++) g[c] = (float)(own * (exp(x[c] - highest) / normal - (c == t)));
      }
    }
  }
  __shared__ double sums[256];
  sums[threadIdx.x] = value;
  __syncthreads();
  for (int step = blockDim.x / 2; step > 0; step /= 2) {
    if ((int)threadIdx.x < step) sums[threadIdx.x] += sums[threadIdx.x + step];
    __syncthreads();
  }
  if (threadIdx.x == 0) partial[blockIdx.x] = sums[0];
  if (last_block(ticket, blocks) && threadIdx.x == 0) {
    double sum = 0.0;
    for (int i = 0; i < blocks; i++) sum += __ldcg(partial + i);
    control->loss = sum;
    losses[control->current] = sum;
  }
}
