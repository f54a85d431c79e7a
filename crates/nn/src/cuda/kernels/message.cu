// Layers of other kinds than attention (KIND: 1 convolution, with MEAN of means, 2 additive
// attention, 3 gated; see cpu/message). All compute some x from the layer's input h, then h +
// act(norm(x)); a block takes a tile of ROWS rows of one stream, or a warp takes a node and its
// edges.
//
//   convolution:         gather m; project x = m W + b; activate
//   additive attention:  project z = h W, and logits; attend x; measure x
//   gated:               project A, B, D, E = h W + b; gates = e W + b + D of the source + E of the target, and measure them; gather x; measure x
//
// Where a layer begins with a projection, it first activates what the layer below left; `activate`
// is then for the last one. Likewise in the backward pass. Of a gated layer's edges there are many
// more than the caches hold: what can be computed again is not written, and what follows on it is
// done while it is there.

// One stream of a layer.
struct MessageHalf {
  const float* h;     // [rows, D] the layer's input
  float* projected;   // [nodes, PROJECTED], or the sums m of a convolution
  float* x;           // [rows, D] before the normalisation; of edges the gates
  float* out;         // [rows, D] the layer's output
  // Backward pass.
  float* g;           // gradient of the output, then of the input
  float* dy;          // of the normalised x; null where it is computed again, from g
  float* dx;          // of x
  float* dprojected;  // like `projected`
  const float* jump;  // what the head's gradient adds to the layer's input, or null
  int jump_stride;
  int returns;        // whether the gradient of the output is one of the input too
  Linear linear;
  Site norm;
  u32 dropped;        // number of the dropout site
};

struct Message {
  MessageHalf node, edge;
  int with_edges;        // whether edges are worked on too
  u32 threshold;         // of dropout, in 65536ths
  float scale;
  const float* vectors;  // [2, D] of additive attention: of sources, of targets
  float* logits;         // [nodes, 2 * HEADS] what a node adds to the logits of edges out of it and into it
  float* softmax;        // [nodes, 2 * HEADS] largest logit of its in-edges, and inverse of the sum
  float* dlogits;        // like `logits`
  float* dt;             // [edges, HEADS]
  int single;            // whether all channels are one head
  float* inverse;        // [nodes, D] of gated layers: 1 / sum of the open gates; in the backward pass the gradient of x times that
};

#if KIND > 0

#define PROJECTED (KIND == 3 ? 4 * D : D)

__device__ __forceinline__ float activated(float y) { return y > 0.f ? y : KIND == 2 ? __expf(y) - 1.f : 0.f; }
__device__ __forceinline__ float slope(float y) { return y > 0.f ? 1.f : KIND == 2 ? __expf(y) : 0.f; }

// ---- Along edges, a warp per node.

#define EDGES_AT_ONCE 4

__device__ __forceinline__ int own_node() { return blockIdx.x * 4 + threadIdx.x / 32; }

__device__ __forceinline__ void add_scaled(Lane& sum, float factor, const Lane& x) {
#pragma unroll
  for (int j = 0; j < PER_LANE; j++) sum.v[j] += factor * x.v[j];
}

#if KIND == 1

// The share that an end with so many edges has in each: 1 / sqrt(degree), or in a mean 1 / degree
// for the target and 1 for the source.
__device__ __forceinline__ float share_of(int degree, bool is_target) {
  if (!MEAN) return rsqrtf((float)max(1, degree));
  return is_target ? 1.f / max(1, degree) : 1.f;
}

// Rows times the shares of both ends, added up over the edges into a node, or, in the backward
// pass, out of it.
__device__ __forceinline__ Lane gathered(const int* start, const int* ends, const int* other, const float* from, int node, bool back) {
  Lane sum = nothing();
  const int first = start[node], to = start[node + 1];
  for (int at = first; at < to; at += EDGES_AT_ONCE) {
    Lane x[EDGES_AT_ONCE];
    float share[EDGES_AT_ONCE];
#pragma unroll
    for (int i = 0; i < EDGES_AT_ONCE; i++) {
      const int end = ends[min(at + i, to - 1)];
      x[i] = lane_of(from + (size_t)end * D);
      share[i] = at + i < to ? share_of(other[end + 1] - other[end], back) : 0.f;
    }
#pragma unroll
    for (int i = 0; i < EDGES_AT_ONCE; i++) add_scaled(sum, share[i], x[i]);
  }
  const float share = share_of(to - first, !back);
#pragma unroll
  for (int j = 0; j < PER_LANE; j++) sum.v[j] *= share;
  return sum;
}

extern "C" __global__ void __launch_bounds__(128) message_forward(Batch b, Message m) {
  const int node = own_node();
  if (node >= b.control->nodes) return;
  put(gathered(b.in_start, b.source, b.out_start, m.node.h, node, false), m.node.projected + (size_t)node * D);
}

// The gradient of the layer's input, from that of the sums.
extern "C" __global__ void __launch_bounds__(128) message_return(Batch b, Message m) {
  const int node = own_node();
  if (node >= b.control->nodes) return;
  Lane g = gathered(b.out_start, b.out_target, b.in_start, m.node.dprojected, node, true);
  if (m.node.returns) add_scaled(g, 1.f, lane_of(m.node.g + (size_t)node * D));
  if (m.node.jump) add_scaled(g, 1.f, lane_of(m.node.jump + (size_t)node * m.node.jump_stride));
  put(g, m.node.g + (size_t)node * D);
}

#elif KIND == 2

#define LEAK 0.2f

// Sums of x * y over each head, or over all channels.
__device__ __forceinline__ Heads head_dots(const Lane& x, const Lane& y, bool single) {
  if (!single) return dots(x, y);
  float sum = 0.f;
#pragma unroll
  for (int j = 0; j < PER_LANE; j++) sum += x.v[j] * y.v[j];
  sum = warp_sum(sum);
  Heads all;
#pragma unroll
  for (int g = 0; g < GROUPS; g++) all.v[g] = sum;
  return all;
}

__device__ __forceinline__ float leaky(float t) { return fmaxf(t, LEAK * t); }

__device__ __forceinline__ const float* half_row(const float* rows, int node, int half) { return rows + (size_t)(2 * node + half) * HEADS; }
__device__ __forceinline__ float* half_row(float* rows, int node, int half) { return rows + (size_t)(2 * node + half) * HEADS; }

extern "C" __global__ void __launch_bounds__(128) message_forward(Batch b, Message m) {
  const int node = own_node();
  if (node >= b.control->nodes) return;
  const int from = b.in_start[node], to = b.in_start[node + 1];
  const Heads own = heads_of(half_row(m.logits, node, 1));
  Heads top, sum;
#pragma unroll
  for (int g = 0; g < GROUPS; g++) top.v[g] = to > from ? __int_as_float(0xff800000) : 0.f, sum.v[g] = 0.f;
#pragma unroll 4
  for (int e = from; e < to; e++) {
    const Heads other = heads_of(half_row(m.logits, b.source[e], 0));
#pragma unroll
    for (int g = 0; g < GROUPS; g++) top.v[g] = fmaxf(top.v[g], leaky(other.v[g] + own.v[g]));
  }
  Lane x = nothing();
  for (int e = from; e < to; e += EDGES_AT_ONCE) {
    Lane z[EDGES_AT_ONCE];
    Heads other[EDGES_AT_ONCE];
#pragma unroll
    for (int i = 0; i < EDGES_AT_ONCE; i++) {
      const int source = b.source[min(e + i, to - 1)];
      z[i] = lane_of(m.node.projected + (size_t)source * D);
      other[i] = heads_of(half_row(m.logits, source, 0));
    }
#pragma unroll
    for (int i = 0; i < EDGES_AT_ONCE; i++) {
      float w[GROUPS];
#pragma unroll
      for (int g = 0; g < GROUPS; g++) sum.v[g] += w[g] = e + i < to ? __expf(leaky(other[i].v[g] + own.v[g]) - top.v[g]) : 0.f;
#pragma unroll
      for (int j = 0; j < PER_LANE; j++) x.v[j] += w[GROUP(j)] * z[i].v[j];
    }
  }
  Heads inverse;
#pragma unroll
  for (int g = 0; g < GROUPS; g++) inverse.v[g] = to > from ? 1.f / sum.v[g] : 0.f;
  put_heads(top, half_row(m.softmax, node, 0));
  put_heads(inverse, half_row(m.softmax, node, 1));
#pragma unroll
  for (int j = 0; j < PER_LANE; j++) x.v[j] *= inverse.v[GROUP(j)];
  put(x, m.node.x + (size_t)node * D);
}

// Over a node's in-edges: gradients of the logits.
extern "C" __global__ void __launch_bounds__(128) message_into(Batch b, Message m) {
  const int node = own_node();
  if (node >= b.control->nodes) return;
  const Lane dx = lane_of(m.node.dx + (size_t)node * D);
  const Heads delta = head_dots(dx, lane_of(m.node.x + (size_t)node * D), m.single);
  const Heads own = heads_of(half_row(m.logits, node, 1)), top = heads_of(half_row(m.softmax, node, 0)), inverse = heads_of(half_row(m.softmax, node, 1));
  Heads all;
#pragma unroll
  for (int g = 0; g < GROUPS; g++) all.v[g] = 0.f;
  const int to = b.in_start[node + 1];
  for (int e = b.in_start[node]; e < to; e += EDGES_AT_ONCE) {
    Lane z[EDGES_AT_ONCE];
    Heads other[EDGES_AT_ONCE];
#pragma unroll
    for (int i = 0; i < EDGES_AT_ONCE; i++) {
      const int source = b.source[min(e + i, to - 1)];
      z[i] = lane_of(m.node.projected + (size_t)source * D);
      other[i] = heads_of(half_row(m.logits, source, 0));
    }
#pragma unroll
    for (int i = 0; i < EDGES_AT_ONCE; i++) {
      if (e + i >= to) break;
      Heads dt = head_dots(dx, z[i], m.single);
#pragma unroll
      for (int g = 0; g < GROUPS; g++) {
        const float t = other[i].v[g] + own.v[g], w = __expf(leaky(t) - top.v[g]) * inverse.v[g];
        all.v[g] += dt.v[g] = w * (dt.v[g] - delta.v[g]) * (t > 0.f ? 1.f : LEAK);
      }
      put_heads(dt, m.dt + (size_t)(e + i) * HEADS);
    }
  }
  put_heads(all, half_row(m.dlogits, node, 1));
}

// Over a node's out-edges: the gradient of its projection.
extern "C" __global__ void __launch_bounds__(128) message_out(Batch b, Message m) {
  const int node = own_node();
  if (node >= b.control->nodes) return;
  const Heads own = heads_of(half_row(m.logits, node, 0));
  Lane dz = nothing();
  Heads all;
#pragma unroll
  for (int g = 0; g < GROUPS; g++) all.v[g] = 0.f;
  const int to = b.out_start[node + 1];
  for (int at = b.out_start[node]; at < to; at += EDGES_AT_ONCE) {
    Lane dx[EDGES_AT_ONCE];
    Heads w[EDGES_AT_ONCE], dt[EDGES_AT_ONCE];
#pragma unroll
    for (int i = 0; i < EDGES_AT_ONCE; i++) {
      const int place = min(at + i, to - 1), target = b.out_target[place];
      dx[i] = lane_of(m.node.dx + (size_t)target * D);
      dt[i] = heads_of(m.dt + (size_t)b.out_edge[place] * HEADS);
      const Heads other = heads_of(half_row(m.logits, target, 1)), top = heads_of(half_row(m.softmax, target, 0)), inverse = heads_of(half_row(m.softmax, target, 1));
#pragma unroll
      for (int g = 0; g < GROUPS; g++) w[i].v[g] = __expf(leaky(own.v[g] + other.v[g]) - top.v[g]) * inverse.v[g];
    }
#pragma unroll
    for (int i = 0; i < EDGES_AT_ONCE; i++) {
      if (at + i >= to) break;
#pragma unroll
      for (int g = 0; g < GROUPS; g++) all.v[g] += dt[i].v[g];
#pragma unroll
      for (int j = 0; j < PER_LANE; j++) dz.v[j] += w[i].v[GROUP(j)] * dx[i].v[j];
    }
  }
  put_heads(all, half_row(m.dlogits, node, 0));
  const Heads into = heads_of(half_row(m.dlogits, node, 1));
  const Lane source = lane_of(m.vectors), target = lane_of(m.vectors + D);
#pragma unroll
  for (int j = 0; j < PER_LANE; j++) dz.v[j] += all.v[GROUP(j)] * source.v[j] + into.v[GROUP(j)] * target.v[j];
  put(dz, m.node.dprojected + (size_t)node * D);
}

#define VECTOR_SLICES 8

// Gradients of the vectors: sums of dlogits * z over the rows of a chunk. Blocks (32 channels,
// chunk, vector); threads (channel, slice).
extern "C" __global__ void message_vectors(Batch b, Message m, float* gradient, size_t stride) {
  const int p = blockIdx.x * 32 + threadIdx.x, chunk = blockIdx.y, half = blockIdx.z, nodes = b.control->nodes;
  const int per = (nodes + gridDim.y - 1) / gridDim.y, from = min(nodes, chunk * per), to = min(nodes, from + per);
  float sum = 0.f;
  if (p < D)
#pragma unroll 4
    for (int r = from + threadIdx.y; r < to; r += VECTOR_SLICES) sum += m.node.projected[(size_t)r * D + p] * half_row(m.dlogits, r, half)[p % HEADS];
  __shared__ float sums[VECTOR_SLICES][32];
  sums[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y > 0 || p >= D) return;
  for (int s = 1; s < VECTOR_SLICES; s++) sum += sums[s][threadIdx.x];
  gradient[chunk * stride + half * D + p] = sum;
}

#else

__device__ __forceinline__ float sigmoid(float x) { return 1.f / (1.f + __expf(-x)); }

// A row of a node's terms: 0 A, 1 B, 2 D, 3 E.
__device__ __forceinline__ const float* term_row(const float* terms, int node, int number) { return terms + ((size_t)node * 4 + number) * D; }
__device__ __forceinline__ Lane term(const float* terms, int node, int number) { return lane_of(term_row(terms, node, number)); }

extern "C" __global__ void __launch_bounds__(128) message_forward(Batch b, Message m) {
  const int node = own_node();
  if (node >= b.control->nodes) return;
  const float* terms = m.node.projected;
  Lane sent = nothing(), sum = nothing();
  const int to = b.in_start[node + 1];
  for (int e = b.in_start[node]; e < to; e += EDGES_AT_ONCE) {
    Lane gate[EDGES_AT_ONCE], message[EDGES_AT_ONCE];
#pragma unroll
    for (int i = 0; i < EDGES_AT_ONCE; i++) {
      const int edge = min(e + i, to - 1);
      gate[i] = lane_of(m.edge.x + (size_t)edge * D);
      message[i] = term(terms, b.source[edge], 1);
    }
#pragma unroll
    for (int i = 0; i < EDGES_AT_ONCE; i++) {
      if (e + i >= to) break;
#pragma unroll
      for (int j = 0; j < PER_LANE; j++) {
        const float open = sigmoid(gate[i].v[j]);
        sent.v[j] += open * message[i].v[j];
        sum.v[j] += open;
      }
    }
  }
  Lane x = term(terms, node, 0);
#pragma unroll
  for (int j = 0; j < PER_LANE; j++) {
    sum.v[j] = 1.f / (sum.v[j] + 1e-6f);
    x.v[j] += sent.v[j] * sum.v[j];
  }
  put(sum, m.inverse + (size_t)node * D);
  put(x, m.node.x + (size_t)node * D);
}

#if NORM == 1
// Inputs of a batch normalisation's backward pass, per channel: dx = scale * dy - (factor * x +
// offset), which is scale * (dy - mean(dy) - x^ * mean(dy * x^)).
struct Channels {
  Lane scale, shift, factor, offset;
};

__device__ __forceinline__ Channels channels_of(const Site& site) {
  const Lane mean = lane_of(STAT(0)), inverse = lane_of(STAT(1)), mean_dy = lane_of(STAT(4)), mean_dyx = lane_of(STAT(5));
  Channels of = {lane_of(STAT(2)), lane_of(STAT(3))};
#pragma unroll
  for (int j = 0; j < PER_LANE; j++) {
    of.factor.v[j] = of.scale.v[j] * inverse.v[j] * mean_dyx.v[j];
    of.offset.v[j] = of.scale.v[j] * mean_dy.v[j] - mean.v[j] * of.factor.v[j];
  }
  return of;
}

// The gradient of x, from that of the activated x.
__device__ __forceinline__ Lane unnormalised(const Channels& of, const Lane& g, const Lane& x) {
  Lane dx;
#pragma unroll
  for (int j = 0; j < PER_LANE; j++) {
    const float dy = g.v[j] * slope(x.v[j] * of.scale.v[j] + of.shift.v[j]);
    dx.v[j] = of.scale.v[j] * dy - (of.factor.v[j] * x.v[j] + of.offset.v[j]);
  }
  return dx;
}
#endif

// Over a node's in-edges: gradients of the gates, and of A and E.
extern "C" __global__ void __launch_bounds__(128) message_into(Batch b, Message m) {
  const int node = own_node();
  if (node >= b.control->nodes) return;
  const float* terms = m.node.projected;
  const Lane dx = lane_of(m.node.dx + (size_t)node * D), x = lane_of(m.node.x + (size_t)node * D), own = term(terms, node, 0);
  Lane dsent = lane_of(m.inverse + (size_t)node * D);
#pragma unroll
  for (int j = 0; j < PER_LANE; j++) dsent.v[j] *= dx.v[j];
  // For `message_out`, to which this node is a target.
  put(dsent, m.inverse + (size_t)node * D);
#if NORM == 1
  const Channels channels = channels_of(m.edge.norm);
  const float* above = m.edge.g;
#else
  const float* above = m.edge.dx;
#endif
  Lane sum = nothing();
  const int to = b.in_start[node + 1];
  for (int e = b.in_start[node]; e < to; e += EDGES_AT_ONCE) {
    Lane gate[EDGES_AT_ONCE], message[EDGES_AT_ONCE], dgate[EDGES_AT_ONCE];
#pragma unroll
    for (int i = 0; i < EDGES_AT_ONCE; i++) {
      const int edge = min(e + i, to - 1);
      gate[i] = lane_of(m.edge.x + (size_t)edge * D);
      message[i] = term(terms, b.source[edge], 1);
      dgate[i] = m.with_edges ? lane_of(above + (size_t)edge * D) : nothing();
    }
#pragma unroll
    for (int i = 0; i < EDGES_AT_ONCE; i++) {
      if (e + i >= to) break;
#if NORM == 1
      if (m.with_edges) dgate[i] = unnormalised(channels, dgate[i], gate[i]);
#endif
#pragma unroll
      for (int j = 0; j < PER_LANE; j++) {
        const float open = sigmoid(gate[i].v[j]);
        dgate[i].v[j] += dsent.v[j] * (message[i].v[j] - (x.v[j] - own.v[j])) * open * (1.f - open);
        sum.v[j] += dgate[i].v[j];
      }
      put(dgate[i], m.edge.dx + (size_t)(e + i) * D);
    }
  }
  float* dterms = m.node.dprojected + (size_t)node * 4 * D;
  put(dx, dterms);
  put(sum, dterms + 3 * D);
}

// Over a node's out-edges: gradients of B and D.
extern "C" __global__ void __launch_bounds__(128) message_out(Batch b, Message m) {
  const int node = own_node();
  if (node >= b.control->nodes) return;
  Lane message = nothing(), source = nothing();
  const int to = b.out_start[node + 1];
  for (int at = b.out_start[node]; at < to; at += EDGES_AT_ONCE) {
    Lane gate[EDGES_AT_ONCE], dgate[EDGES_AT_ONCE], dsent[EDGES_AT_ONCE];
#pragma unroll
    for (int i = 0; i < EDGES_AT_ONCE; i++) {
      const int place = min(at + i, to - 1), edge = b.out_edge[place], target = b.out_target[place];
      gate[i] = lane_of(m.edge.x + (size_t)edge * D);
      dgate[i] = lane_of(m.edge.dx + (size_t)edge * D);
      dsent[i] = lane_of(m.inverse + (size_t)target * D);
    }
#pragma unroll
    for (int i = 0; i < EDGES_AT_ONCE; i++) {
      if (at + i >= to) break;
#pragma unroll
      for (int j = 0; j < PER_LANE; j++) {
        message.v[j] += sigmoid(gate[i].v[j]) * dsent[i].v[j];
        source.v[j] += dgate[i].v[j];
      }
    }
  }
  float* dterms = m.node.dprojected + (size_t)node * 4 * D;
  put(message, dterms + D);
  put(source, dterms + 2 * D);
}

#endif

// ---- On rows.

__device__ __forceinline__ const MessageHalf& half_of(const Message& m, const Tile& t) { return t.edges ? m.edge : m.node; }

template <int N>
__device__ void load(const float* from, float* tile, int row0, int rows) {
#pragma unroll
  for (int at = threadIdx.x; at < ROWS * N / 4; at += THREADS) {
    const int r = at / (N / 4), p = at % (N / 4) * 4;
    *(float4*)(tile + r * PADDED(N) + p) = row0 + r < rows ? *(const float4*)(from + (size_t)(row0 + r) * N + p) : make_float4(0.f, 0.f, 0.f, 0.f);
  }
}

// Scale and shift of a layer's normalisation.
__device__ __forceinline__ const float* normal_of(const Batch& b, const Message& m, const Tile& t) {
  __shared__ __align__(16) float found[2 * D];
  return find_statistics(half_of(m, t).norm, t.rows, b.control->train, t.number == 0, found);
}

// A layer's output, into a tile and into device memory, out of rows of its x and of its input.
__device__ __forceinline__ void activate(const Batch& b, const Message& m, const Tile& t, const float* normal, const Share& x, const Share& before, float* y) {
  const MessageHalf& h = half_of(m, t);
  const bool train = b.control->train;
  Share out = normalised(x, h.norm, normal, t.row0, t.rows, y);
  const u64 key = dropout_key(b.control, h.dropped);
#pragma unroll
  for (int i = 0; i < SHARES; i++) {
    const int r = share_row(i), p = share_place(), row = t.row0 + r;
    float4& v = out.v[i];
#pragma unroll
    for (int j = 0; j < 4; j++) {
      float& one = (&v.x)[j];
      one = activated(one);
      if (RESIDUAL) one += (&before.v[i].x)[j];
      if (DROPOUT && train) one *= kept_stream(key, row, p + j, m.threshold, m.scale);
    }
    *(float4*)(y + r * PADDED(D) + p) = v;
    if (row < t.rows) *(float4*)(h.out + (size_t)row * D + p) = v;
  }
  __syncthreads();
}

__device__ void activate(const Batch& b, const Message& m, const Tile& t, float* y) {
  const MessageHalf& h = half_of(m, t);
  const Share x = fetch(h.x, t.row0, t.rows), before = RESIDUAL ? fetch(h.h, t.row0, t.rows) : Share();
  activate(b, m, t, normal_of(b, m, t), x, before, y);
}

// The gradient of the normalised x, and what the normalisation needs of it, from that of the output
// in the tile `g`, which is used up; `x` has been fetched.
__device__ void activate_backward(const Batch& b, const Message& m, const Tile& t, const Share& x, float* g, float* y) {
  const MessageHalf& h = half_of(m, t);
  // `activate` has settled the statistics.
  const Share normal = normalised(x, h.norm, h.norm.stats + 2 * D, t.row0, t.rows, y);
  const u64 key = dropout_key(b.control, h.dropped);
#pragma unroll
  for (int i = 0; i < SHARES; i++) {
    const int r = share_row(i), p = share_place(), row = t.row0 + r;
    if (row >= t.rows) continue;
    float4* from = (float4*)(g + r * PADDED(D) + p);
    float4 v = *from;
    if (DROPOUT)
#pragma unroll
      for (int j = 0; j < 4; j++) (&v.x)[j] *= kept_stream(key, row, p + j, m.threshold, m.scale);
    *(float4*)(h.g + (size_t)row * D + p) = v;
#pragma unroll
    for (int j = 0; j < 4; j++) (&v.x)[j] *= slope((&normal.v[i].x)[j]);
    *(float4*)(y + r * PADDED(D) + p) = v;
    if (h.dy) *(float4*)(h.dy + (size_t)row * D + p) = v;
    *from = x.v[i];
  }
  __syncthreads();
  if (NORM == 1) add_gradient_sums(h.norm, y, fetch_before(h.norm, g, PADDED(D), t.row0, t.rows), t.number, t.row0, t.rows);
}

// Adds a product to a tile.
__device__ __forceinline__ auto added_to(float* tile) {
  return [=](int r, int p, float2 v, float2) {
    float2* own = (float2*)(tile + r * PADDED(D) + p);
    *own = make_float2(v.x + own->x, v.y + own->y);
  };
}

// Likewise, and what the head brings to the gradient of a layer's input.
__device__ __forceinline__ auto added_with_jump(float* tile, const MessageHalf& h, const Tile& t) {
  const float* jump = h.jump ? h.jump + (size_t)t.row0 * h.jump_stride : nullptr;
  const int stride = h.jump_stride, rows = t.rows - t.row0;
  return [=](int r, int p, float2 v, float2) {
    float2* own = (float2*)(tile + r * PADDED(D) + p);
    const float2 other = jump && r < rows ? *(const float2*)(jump + r * stride + p) : make_float2(0.f, 0.f);
    *own = make_float2(v.x + (own->x + other.x), v.y + (own->y + other.y));
  };
}

// `below` is the layer before, unless this is the first.
extern "C" __global__ void __launch_bounds__(THREADS) message_project(Batch b, Message m, Message below, int first) {
  const Tile t = tile_of(b, m.with_edges);
  if (t.idle) return;
  const MessageHalf& h = half_of(m, t);
  float *a = tiles_memory(), *out = a + ROWS * PADDED(D);
  const auto begin = [&] {
    if (KIND == 1) load<D>(h.projected, a, t.row0, t.rows);
    else if (first) load<D>(h.h, a, t.row0, t.rows);
    else activate(b, below, t, a);
  };
  Weights<D, PROJECTED> weights(h.linear.weight);
  begin();
#if KIND == 3
  weights.product<D, PROJECTED>(a, bias_of(h.linear), [&](int r, int p, float2 v, float2 bias) { put_row<PROJECTED>(h.projected, t, r, p, make_float2(v.x + bias.x, v.y + bias.y)); });
#elif KIND == 1
  weights.product<D, D>(a, bias_of(h.linear), [&](int r, int p, float2 v, float2 bias) {
    v = make_float2(v.x + bias.x, v.y + bias.y);
    *(float2*)(out + r * PADDED(D) + p) = v;
    put_row<D>(h.x, t, r, p, v);
  });
  __syncthreads();
  add_statistics(h.norm, out, t.number, t.row0, t.rows, b.control->train);
#else
  weights.product<D, D>(a, nothing_else(), [&](int r, int p, float2 v, float2) {
    *(float2*)(out + r * PADDED(D) + p) = v;
    put_row<D>(h.projected, t, r, p, v);
  });
  __syncthreads();
  // What every node adds to the logits of its edges.
  for (int r = threadIdx.x / 32; r < ROWS && t.row0 + r < t.rows; r += THREADS / 32) {
    const Lane z = lane_of(out + r * PADDED(D));
#pragma unroll
    for (int half = 0; half < 2; half++) put_heads(head_dots(z, lane_of(m.vectors + half * D), m.single), half_row(m.logits, t.row0 + r, half));
  }
#endif
}

#if KIND == 3
// Edges are many, and their rows come from far away: all loads of a tile are issued at once, and
// are in flight while an SM works on other tiles.
#define EDGE_TILES (THREADS <= 512 ? 2 : 1)  // per SM at least, which bounds registers

// The edges' gates, and what the normalisation needs of them. `message_project` has done the nodes.
extern "C" __global__ void __launch_bounds__(THREADS, EDGE_TILES) message_gate(Batch b, Message m, Message below, int first) {
  const Tile t = tile_of(b, true, 0);
  if (t.idle) return;
  const MessageHalf& h = m.edge;
  float *a = tiles_memory(), *gate = a + ROWS * PADDED(D), *before = gate + ROWS * PADDED(D);
  fetch_later(first ? h.h : below.edge.x, t.row0, t.rows, a);
  fetch_later(first || !RESIDUAL ? nullptr : below.edge.h, t.row0, t.rows, before);
  end_copies();
  Weights<D, D> weights(h.linear.weight);
  // What both ends bring; the product comes on top.
#pragma unroll
  for (int i = 0; i < SHARES; i++) {
    const int edge = t.row0 + share_row(i), p = share_place();
    float4 ends = *(const float4*)(h.linear.bias + p);
    if (edge < t.rows) {
      ends = sum_of(ends, *(const float4*)(term_row(m.node.projected, b.source[edge], 2) + p));
      ends = sum_of(ends, *(const float4*)(term_row(m.node.projected, b.target[edge], 3) + p));
    }
    *(float4*)(gate + share_row(i) * PADDED(D) + p) = ends;
  }
  if (!first) {
    const float* normal = normal_of(b, below, t);
    // A thread's own copies, sent before those of the weights.
    wait_for_copies<STAGES - 1>();
    activate(b, below, t, normal, from_tile(a), from_tile(before), a);
  }
  weights.product<D, D>(a, nothing_else(), added_to(gate));
  __syncthreads();
  store<D>(gate, h.x, t.row0, t.rows);
  add_statistics(h.norm, gate, t.number, t.row0, t.rows, b.control->train);
}

// The gradient of the edges' input, from that of their gates. `message_project_backward` does the
// nodes.
extern "C" __global__ void __launch_bounds__(THREADS, EDGE_TILES) message_gate_backward(Batch b, Message m, Message below, int first) {
  const Tile t = tile_of(b, true, 0);
  if (t.idle) return;
  const MessageHalf& h = m.edge;
  float *out = tiles_memory(), *a = out + ROWS * PADDED(D), *x = a + ROWS * PADDED(D);
  fetch_later(h.returns ? h.g : nullptr, t.row0, t.rows, out);
  fetch_later(h.dx, t.row0, t.rows, a);
  fetch_later(first ? nullptr : below.edge.x, t.row0, t.rows, x);
  end_copies();
  Weights<D, D> weights(h.linear.transposed);
  weights.product<D, D>(a, nothing_else(), added_with_jump(out, h, t));
  __syncthreads();
  if (first) store<D>(out, h.g, t.row0, t.rows);
  else activate_backward(b, below, t, from_tile(x), out, a);
}
#endif

// What the normalisation needs of the nodes' x.
extern "C" __global__ void __launch_bounds__(THREADS) message_measure(Batch b, Message m) {
  const Tile t = tile_of(b, m.with_edges);
  if (t.idle) return;
  const MessageHalf& h = half_of(m, t);
  float* tile = tiles_memory();
  load<D>(h.x, tile, t.row0, t.rows);
  __syncthreads();
  add_statistics(h.norm, tile, t.number, t.row0, t.rows, b.control->train);
}

extern "C" __global__ void __launch_bounds__(THREADS) message_activate(Batch b, Message m) {
  const Tile t = tile_of(b, m.with_edges);
  if (!t.idle) activate(b, m, t, tiles_memory());
}

// Of the last layer what the head passes back, to the stream that it reads; of others what is
// there.
extern "C" __global__ void __launch_bounds__(THREADS) message_activate_backward(Batch b, Message m, const float* dsource, int stride, int of_edges, int last) {
  const Tile t = tile_of(b, m.with_edges);
  if (t.idle) return;
  float *g = tiles_memory(), *y = g + ROWS * PADDED(D);
  const float* from = !last ? half_of(m, t).g : t.edges == (bool)of_edges ? dsource : nullptr;
  const int width = last ? stride : D;
  for (int at = threadIdx.x; at < ROWS * D; at += THREADS) {
    const int r = at / D, p = at % D;
    g[r * PADDED(D) + p] = from && t.row0 + r < t.rows ? from[(size_t)(t.row0 + r) * width + p] : 0.f;
  }
  __syncthreads();
  activate_backward(b, m, t, fetch(half_of(m, t).x, t.row0, t.rows), g, y);
}

#if KIND > 1
// The gradient of x. That of edges' gates is found by `message_into`, where it needs no more than
// means over the batch, which one block more settles unless `merge_group` has.
extern "C" __global__ void __launch_bounds__(THREADS) message_unnormalise(Batch b, Message m) {
  if (KIND == 3 && NORM == 1 && blockIdx.x + 1 == gridDim.x) {
    __shared__ float2 means[D];
    if (m.edge.norm.group == 1) merge_means(m.edge.norm, b.control->edges, true, means);
    return;
  }
  const Tile t = tile_of(b, m.with_edges);
  if (t.idle) return;
  const MessageHalf& h = half_of(m, t);
  float *g = tiles_memory(), *other = g + ROWS * PADDED(D);
  load_backward(h.norm, h.dy, h.x, t.number, t.row0, t.rows, g, other);
  store<D>(g, h.dx, t.row0, t.rows);
}
#endif

extern "C" __global__ void __launch_bounds__(THREADS) message_project_backward(Batch b, Message m, Message below, int first) {
  const Tile t = tile_of(b, m.with_edges);
  if (t.idle) return;
  const MessageHalf& h = half_of(m, t);
  float *out = tiles_memory(), *a = out + ROWS * PADDED(D);
#if KIND == 1
  Weights<D, D> weights(h.linear.transposed);
  load_backward(h.norm, h.dy, h.x, t.number, t.row0, t.rows, a, out);
  store<D>(a, h.dx, t.row0, t.rows);
  weights.product<D, D>(a, nothing_else(), [&](int r, int p, float2 v, float2) { put_row<D>(h.dprojected, t, r, p, v); });
#else
  // What the residual brings; the product comes on top.
  fetch_later(h.returns ? h.g : nullptr, t.row0, t.rows, out);
  end_copies();
  Weights<PROJECTED, D> weights(h.linear.transposed);
  load<PROJECTED>(h.dprojected, a, t.row0, t.rows);
  weights.product<PROJECTED, D>(a, nothing_else(), added_with_jump(out, h, t));
  __syncthreads();
  if (first) store<D>(out, h.g, t.row0, t.rows);
  else activate_backward(b, below, t, fetch(below.node.x, t.row0, t.rows), out, a);
#endif
}

#endif
