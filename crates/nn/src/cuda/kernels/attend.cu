// Attention over a node's in-edges. A warp takes a node; lane l holds the places l, l + 32, ...,
// which all belong to head l % HEADS (HEADS divides 32, or 32 divides it).
//
//   score s = q * k / sqrt(d_k), with edges times p; logit = sum of a head's s; w = exp(clamp(logit)); attended = sum w v / sum w
//
// In the backward pass everything is computed again from q, k, v, p: cheaper than keeping a number
// per edge, head and channel.

#define SCALE (rsqrtf((float)(WIDTH / TRUE_HEADS)))

#if HEADS <= 32
#define GROUPS 1
#else
#define GROUPS (HEADS / 32)
#endif
// The group of heads that a lane's j-th place belongs to.
#define GROUP(j) ((j) % GROUPS)

// Edges that are under way together: no more than most nodes have, nor than registers hold.
#define BATCH (EDGE ? (BURST < 4 ? BURST : 4) : BURST)
#define BATCH_BACK (BURST < 4 ? BURST : 4)

struct Attention {
  const float* qkv;        // [nodes, 3 * D]
  const float* p;          // [edges, D], or null
  float* attended;         // [nodes, D]
  float* scores;           // [edges, D], or null
  float* inverse;          // [nodes, HEADS]
  // Backward pass.
  const float* dattended;  // [nodes, D]
  const float* dscores;    // [edges, D], or null
  const float* delta;      // [nodes, HEADS]
  float* dqkv;             // [nodes, 3 * D]
  float* dp;               // [edges, D]
  u32 node_site, edge_site, threshold;
  float scale;
};

struct Lane {
  float v[PER_LANE];
};

__device__ __forceinline__ Lane lane_of(const float* row) {
  Lane x;
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int j = 0; j < PER_LANE; j++) x.v[j] = D % 32 == 0 || lane + 32 * j < D ? row[lane + 32 * j] : 0.f;
  return x;
}

__device__ __forceinline__ void put(const Lane& x, float* row) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int j = 0; j < PER_LANE; j++)
    if (D % 32 == 0 || lane + 32 * j < D) row[lane + 32 * j] = x.v[j];
}

__device__ __forceinline__ Lane nothing() {
  Lane x;
#pragma unroll
  for (int j = 0; j < PER_LANE; j++) x.v[j] = 0.f;
  return x;
}

struct Heads {
  float v[GROUPS];
};

// Sums of x * y over each head, in the lanes of that head.
__device__ __forceinline__ Heads dots(const Lane& x, const Lane& y) {
  Heads sum;
#pragma unroll
  for (int g = 0; g < GROUPS; g++) sum.v[g] = 0.f;
#pragma unroll
  for (int j = 0; j < PER_LANE; j++) sum.v[GROUP(j)] += x.v[j] * y.v[j];
#pragma unroll
  for (int g = 0; g < GROUPS; g++) sum.v[g] = head_sum(sum.v[g]);
  return sum;
}

__device__ __forceinline__ Heads heads_of(const float* row) {
  Heads x;
#pragma unroll
  for (int g = 0; g < GROUPS; g++) x.v[g] = row[(threadIdx.x % 32 + 32 * g) % HEADS];
  return x;
}

__device__ __forceinline__ void put_heads(const Heads& x, float* row) {
#pragma unroll
  for (int g = 0; g < GROUPS; g++)
    if (threadIdx.x % 32 + 32 * g < HEADS) row[threadIdx.x % 32 + 32 * g] = x.v[g];
}

// An edge's scores (q is scaled already), and the logits.
__device__ __forceinline__ Heads logits(const Lane& q, const Lane& k, const Lane& p, Lane& s, Heads& qk) {
#if !EDGE
  return dots(q, k);
#elif GATE == 0
#pragma unroll
  for (int j = 0; j < PER_LANE; j++) s.v[j] = q.v[j] * k.v[j] * p.v[j];
  Lane ones;
#pragma unroll
  for (int j = 0; j < PER_LANE; j++) ones.v[j] = 1.f;
  return dots(s, ones);
#else
  qk = dots(q, k);
#pragma unroll
  for (int j = 0; j < PER_LANE; j++) s.v[j] = qk.v[GROUP(j)] * p.v[j];
  Lane ones;
#pragma unroll
  for (int j = 0; j < PER_LANE; j++) ones.v[j] = 1.f;
  return dots(s, ones);
#endif
}

#if CLAMP == 0
#define LOWEST -5.f
#define HIGHEST 5.f
#else
#define LOWEST -80.f
#define HIGHEST 1.6094379124341003f
#endif

__device__ __forceinline__ float weigh(float logit) { return __expf(fminf(fmaxf(logit, LOWEST), HIGHEST)); }
__device__ __forceinline__ bool inside(float logit) { return logit >= LOWEST && logit <= HIGHEST; }

__device__ __forceinline__ Lane scaled_query(const float* qkv, int node) {
  Lane q = lane_of(qkv + (size_t)node * 3 * D);
#pragma unroll
  for (int j = 0; j < PER_LANE; j++) q.v[j] *= SCALE;
  return q;
}

extern "C" __global__ void __launch_bounds__(128) attend(Batch b, Attention a) {
  const int node = blockIdx.x * 4 + threadIdx.x / 32, from = b.in_start[node], to = b.in_start[node + 1];
  if (node >= b.control->nodes) return;
  const bool dropping = DROPOUT && b.control->train;
  const Lane q = scaled_query(a.qkv, node);
  Lane sum = nothing();
  Heads z;
#pragma unroll
  for (int g = 0; g < GROUPS; g++) z.v[g] = 0.f;
  const u64 edge_key = dropout_key(b.control, a.edge_site);
  for (int e = from; e < to; e += BATCH) {
    // Several edges' rows are on their way before the first is needed; those past the end are the
    // last one again, and weigh nothing.
    Lane k[BATCH], v[BATCH], p[BATCH];
#pragma unroll
    for (int i = 0; i < BATCH; i++) {
      const int edge = min(e + i, to - 1);
      const float* source = a.qkv + (size_t)b.source[edge] * 3 * D;
      k[i] = lane_of(source + D);
      v[i] = lane_of(source + 2 * D);
      if (EDGE) p[i] = lane_of(a.p + (size_t)edge * D);
    }
#pragma unroll
    for (int i = 0; i < BATCH; i++) {
      Lane s;
      Heads qk;
      const Heads logit = logits(q, k[i], p[i], s, qk);
      if (EDGE && a.scores && e + i < to) {
        if (dropping)
#pragma unroll
          for (int j = 0; j < PER_LANE; j++) s.v[j] *= kept_stream(edge_key, e + i, threadIdx.x % 32 + 32 * j, a.threshold, a.scale);
        put(s, a.scores + (size_t)(e + i) * D);
      }
      float w[GROUPS];
#pragma unroll
      for (int g = 0; g < GROUPS; g++) z.v[g] += w[g] = e + i < to ? weigh(logit.v[g]) : 0.f;
#pragma unroll
      for (int j = 0; j < PER_LANE; j++) sum.v[j] += w[GROUP(j)] * v[i].v[j];
    }
  }
  Heads inverse;
#pragma unroll
  for (int g = 0; g < GROUPS; g++) inverse.v[g] = z.v[g] > 0.f ? 1.f / (z.v[g] + (EDGE ? 1e-6f : 0.f)) : 0.f;
  put_heads(inverse, a.inverse + (size_t)node * HEADS);
  const u64 key = dropout_key(b.control, a.node_site);
#pragma unroll
  for (int j = 0; j < PER_LANE; j++) {
    sum.v[j] *= inverse.v[GROUP(j)];
    if (dropping) sum.v[j] *= kept_stream(key, node, threadIdx.x % 32 + 32 * j, a.threshold, a.scale);
  }
  put(sum, a.attended + (size_t)node * D);
}

// What an edge passes back: its weights and the gradient of its logits.
__device__ __forceinline__ void edge_backward(const Heads& logit, const Heads& dvalue, const Heads& inverse, const Heads& delta, Heads& w, Heads& dlogit) {
#pragma unroll
  for (int g = 0; g < GROUPS; g++) {
    w.v[g] = weigh(logit.v[g]) * inverse.v[g];
    dlogit.v[g] = inside(logit.v[g]) ? w.v[g] * (dvalue.v[g] - delta.v[g]) : 0.f;
  }
}

// What an edge's scores get back: from the edge stream, and from the logits.
__device__ __forceinline__ Lane score_gradient(const Lane& ds, const Heads& dlogit) {
  Lane g;
#pragma unroll
  for (int j = 0; j < PER_LANE; j++) g.v[j] = (EDGE ? ds.v[j] : 0.f) + dlogit.v[GROUP(j)];
  return g;
}

// The gradient of q, scaled, or of k, given the other; and of p.
__device__ __forceinline__ void add_product_gradient(const Lane& g, const Lane& p, const Lane& other, Lane& sum) {
#if !EDGE
#pragma unroll
  for (int j = 0; j < PER_LANE; j++) sum.v[j] += g.v[j] * other.v[j];
#elif GATE == 0
#pragma unroll
  for (int j = 0; j < PER_LANE; j++) sum.v[j] += g.v[j] * other.v[j] * p.v[j];
#else
  const Heads dqk = dots(g, p);
#pragma unroll
  for (int j = 0; j < PER_LANE; j++) sum.v[j] += dqk.v[GROUP(j)] * other.v[j];
#endif
}

// A node's in-edges give the gradient of its query, and of the edges.
__device__ void into(const Batch& b, const Attention& a, int node, int from, int to) {
  const Lane q = scaled_query(a.qkv, node), dout = lane_of(a.dattended + (size_t)node * D);
  const Heads inverse = heads_of(a.inverse + (size_t)node * HEADS), delta = heads_of(a.delta + (size_t)node * HEADS);
  Lane dq = nothing();
  for (int e = from; e < to; e += BATCH_BACK) {
    Lane k[BATCH_BACK], v[BATCH_BACK], p[BATCH_BACK], ds[BATCH_BACK];
#pragma unroll
    for (int i = 0; i < BATCH_BACK; i++) {
      const int edge = min(e + i, to - 1);
      const float* source = a.qkv + (size_t)b.source[edge] * 3 * D;
      k[i] = lane_of(source + D);
      v[i] = lane_of(source + 2 * D);
      p[i] = EDGE ? lane_of(a.p + (size_t)edge * D) : nothing();
      ds[i] = EDGE && a.dscores ? lane_of(a.dscores + (size_t)edge * D) : nothing();
    }
#pragma unroll
    for (int i = 0; i < BATCH_BACK; i++) {
      if (e + i >= to) break;
      Lane s;
      Heads qk, w, dlogit;
      const Heads logit = logits(q, k[i], p[i], s, qk);
      edge_backward(logit, dots(dout, v[i]), inverse, delta, w, dlogit);
      const Lane g = score_gradient(ds[i], dlogit);
      add_product_gradient(g, p[i], k[i], dq);
      if (EDGE) {
        Lane dp;
#pragma unroll
        for (int j = 0; j < PER_LANE; j++) dp.v[j] = g.v[j] * (GATE == 0 ? q.v[j] * k[i].v[j] : qk.v[GROUP(j)]);
        put(dp, a.dp + (size_t)(e + i) * D);
      }
    }
  }
#pragma unroll
  for (int j = 0; j < PER_LANE; j++) dq.v[j] *= SCALE;
  put(dq, a.dqkv + (size_t)node * 3 * D);
}

// A node's out-edges give the gradients of its key and value. What an edge passes is computed once
// more, which is faster than to wait for the other end.
__device__ void out_of(const Batch& b, const Attention& a, int node, int from, int to) {
  const Lane k = lane_of(a.qkv + (size_t)node * 3 * D + D), v = lane_of(a.qkv + (size_t)node * 3 * D + 2 * D);
  Lane dk = nothing(), dv = nothing();
  for (int at = from; at < to; at += BATCH_BACK) {
    Lane q[BATCH_BACK], dout[BATCH_BACK], p[BATCH_BACK], ds[BATCH_BACK];
    Heads inverse[BATCH_BACK], delta[BATCH_BACK];
#pragma unroll
    for (int i = 0; i < BATCH_BACK; i++) {
      const int place = min(at + i, to - 1), target = b.out_target[place], e = EDGE ? b.out_edge[place] : 0;
      q[i] = scaled_query(a.qkv, target);
      dout[i] = lane_of(a.dattended + (size_t)target * D);
      inverse[i] = heads_of(a.inverse + (size_t)target * HEADS);
      delta[i] = heads_of(a.delta + (size_t)target * HEADS);
      p[i] = EDGE ? lane_of(a.p + (size_t)e * D) : nothing();
      ds[i] = EDGE && a.dscores ? lane_of(a.dscores + (size_t)e * D) : nothing();
    }
#pragma unroll
    for (int i = 0; i < BATCH_BACK; i++) {
      if (at + i >= to) break;
      Lane s;
      Heads qk, w, dlogit;
      edge_backward(logits(q[i], k, p[i], s, qk), dots(dout[i], v), inverse[i], delta[i], w, dlogit);
      add_product_gradient(score_gradient(ds[i], dlogit), p[i], q[i], dk);
#pragma unroll
      for (int j = 0; j < PER_LANE; j++) dv.v[j] += w.v[GROUP(j)] * dout[i].v[j];
    }
  }
  put(dk, a.dqkv + (size_t)node * 3 * D + D);
  put(dv, a.dqkv + (size_t)node * 3 * D + 2 * D);
}

// Blocks take in-edges and out-edges of four nodes interleaved.
extern "C" __global__ void __launch_bounds__(128) attend_backward(Batch b, Attention a) {
  const bool sources = blockIdx.x % 2;
  const int node = blockIdx.x / 2 * 4 + threadIdx.x / 32;
  const int* start = (sources ? b.out_start : b.in_start) + node;
  const int from = start[0], to = start[1];
  if (node >= b.control->nodes) return;
  if (sources) out_of(b, a, node, from, to);
  else into(b, a, node, from, to);
}
