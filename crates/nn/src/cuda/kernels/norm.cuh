// Normalisations (NORM: 0 none, 1 over the rows of the batch, 2 over the channels of a row) on
// tiles of ROWS rows.
//
// Batch: every tile leaves the mean and the sum of squared deviations of its rows; the blocks of
// the next kernel merge those of all tiles, each for itself and all in the same order, so no block
// waits for a last one. Where there are many tiles, a kernel in between merges groups of them, and
// its last block the groups. dx = scale * (dy - mean(dy) - x^ * mean(dy * x^)) Layer: g = gamma *
// dy; dx = (g - mean(g) - x^ * mean(g * x^)) / deviation, a row's statistics computed again rather
// than kept.

#define STAT(n) (site.stats + (n) * D)
#define SLICES (2 * THREADS / D)

__device__ __forceinline__ float4 sum_of(float4 x, float4 y) { return make_float4(x.x + y.x, x.y + y.y, x.z + y.z, x.w + y.w); }

// Adds up what threads have summed, in the order of their items: both sums of one channel, both of
// its neighbour.
__device__ __forceinline__ void add_slices(float4 sum, float2* sums) {
  // One for all uses: an array inside a template would be one per use.
  __shared__ float4 slices[THREADS];
  slices[threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.x < D) {
    const float2* own = (const float2*)slices + threadIdx.x;
    float2 all = own[0];
#pragma unroll
    for (int s = 1; s < SLICES; s++) {
      all.x += own[s * D].x;
      all.y += own[s * D].y;
    }
    sums[threadIdx.x] = all;
  }
  __syncthreads();
}

// Two sums over `count` items of something per channel, in a fixed order, by the whole block, to be
// read by all after the call. A thread takes two neighbouring channels: value(item, channel, what
// get(item, channel) brought) are both sums of the first and both of the second. What is got for
// AT_ONCE items is under way together: a thread's share of a tile's rows.
#define AT_ONCE (4 * PIECES)
template <class G, class F>
__device__ __forceinline__ void sum_items(int count, float2* sums, G get, F value) {
  const int p = threadIdx.x % (D / 2) * 2, slice = threadIdx.x / (D / 2);
  float4 sum = make_float4(0.f, 0.f, 0.f, 0.f);
#pragma unroll 1
  for (int first = slice; first < count; first += AT_ONCE * SLICES) {
    decltype(get(0, 0)) got[AT_ONCE];
#pragma unroll
    for (int i = 0; i < AT_ONCE; i++)
      if (first + i * SLICES < count) got[i] = get(first + i * SLICES, p);
#pragma unroll
    for (int i = 0; i < AT_ONCE; i++)
      if (first + i * SLICES < count) sum = sum_of(sum, value(first + i * SLICES, p, got[i]));
  }
  add_slices(sum, sums);
}

// Partial results of a stream's tiles, or of groups of them where those are made.
struct Items {
  const float* at;  // [count, 2, D]
  int count, size;  // rows of an item; the last has fewer

  // Both of two neighbouring channels.
  __device__ __forceinline__ float4 get(int i, int p) const {
    const float* item = at + (size_t)i * 2 * D + p;
    const float2 one = __ldcg((const float2*)item), two = __ldcg((const float2*)(item + D));
    return make_float4(one.x, two.x, one.y, two.y);
  }
};

__device__ __forceinline__ Items items_of(const Site& site, const float* partial, int rows) {
  const int tiles = tiles_of(rows);
  if (site.group == 1) return {partial, tiles, ROWS};
  return {partial + (size_t)site.tiles * 2 * D, (tiles + site.group - 1) / site.group, ROWS * site.group};
}

// Mean, and sum of squared deviations from it, over all items. Deviations are taken from the first
// item's mean, which is near the common one, so nothing cancels.
__device__ __forceinline__ void merge_moments(Items items, int rows, float2* moments) {
  const float pivot = items.at[threadIdx.x % D], size = items.size, rest = rows - (items.count - 1) * items.size;
  const float2 pivots = *(const float2*)(items.at + threadIdx.x % (D / 2) * 2);
  const auto get = [&](int i, int p) { return items.get(i, p); };
  sum_items(items.count, moments, get, [&](int i, int, float4 item) {
    const float n = i + 1 < items.count ? size : rest, one = item.x - pivots.x, two = item.z - pivots.y;
    return make_float4(n * one, item.y + n * one * one, n * two, item.w + n * two * two);
  });
  if (threadIdx.x < D) {
    const float2 sums = moments[threadIdx.x];
    const float off = sums.x / max(rows, 1);
    moments[threadIdx.x] = make_float2(pivot + off, fmaxf(sums.y - sums.x * off, 0.f));
  }
  __syncthreads();
}

__device__ __forceinline__ void merge_sums(Items items, float2* sums) {
  const auto get = [&](int i, int p) { return items.get(i, p); };
  sum_items(items.count, sums, get, [](int, int, float4 item) { return item; });
}

// A normalisation's scale and shift, into `found` (shared, 2 * D); `settle`: for later kernels too,
// and the running statistics with them.
__device__ void merge_statistics(const Site& site, int rows, bool settle, float* found) {
  __shared__ float2 moments[D];
  __shared__ float known[4][D];
  const int p = threadIdx.x;
  // Under way while moments are merged; no registers are left to wait in.
  if (p < D) {
    copy_value(&known[0][p], site.gamma + p);
    copy_value(&known[1][p], site.beta + p);
    if (settle) {
      copy_value(&known[2][p], site.running + p);
      copy_value(&known[3][p], site.running + D + p);
    }
  }
  merge_moments(items_of(site, site.moments, rows), rows, moments);
  if (p < D) {
    wait_for_all_copies();
    const float mean = moments[p].x, total = moments[p].y;
    const float inverse = rsqrtf(total / max(rows, 1) + EPSILON), scale = known[0][p] * inverse, shift = known[1][p] - mean * scale;
    found[p] = scale;
    found[D + p] = shift;
    if (settle && rows > 0) {
      STAT(0)[p] = mean;
      STAT(1)[p] = inverse;
      STAT(2)[p] = scale;
      STAT(3)[p] = shift;
      site.running[p] = known[2][p] + MOMENTUM * (mean - known[2][p]);
      if (rows > 1) site.running[D + p] = known[3][p] + MOMENTUM * (total / (rows - 1) - known[3][p]);
    }
  }
  __syncthreads();
}

// Statistics of the whole batch for the backward pass through a normalisation, into `means`
// (shared, D); `settle`: for later kernels too.
__device__ void merge_means(const Site& site, int rows, bool settle, float2* means) {
  merge_sums(items_of(site, site.sums, rows), means);
  const float each = 1.f / max(rows, 1);
  const int p = threadIdx.x;
  if (p < D) {
    const float2 mean = means[p] = make_float2(means[p].x * each, means[p].y * each);
    if (settle) {
      STAT(4)[p] = mean.x;
      STAT(5)[p] = mean.y;
    }
    // Loads that the caller may have issued.
    wait_for_all_copies();
  }
  __syncthreads();
}

// In training, blocks (group, stream): merges a group of tiles, the last block also the groups;
// `back`: sums of gradients.
extern "C" __global__ void __launch_bounds__(THREADS, PLACES) merge_group(Batch b, Site node, Site edge, int back) {
  const Site& site = blockIdx.y == 0 ? node : edge;
  const int rows = site.edges ? b.control->edges : b.control->nodes, tiles = tiles_of(rows), first = blockIdx.x * site.group;
  if (site.group == 1 || first >= tiles) return;
  float* partial = back ? site.sums : site.moments;
  const Items items = {partial + (size_t)first * 2 * D, min(site.group, tiles - first), ROWS};
  __shared__ __align__(16) float2 result[D];
  if (back) merge_sums(items, result);
  else merge_moments(items, min(rows - first * ROWS, site.group * ROWS), result);
  float* to = partial + (size_t)(site.tiles + blockIdx.x) * 2 * D;
  if (threadIdx.x < D) {
    to[threadIdx.x] = result[threadIdx.x].x;
    to[D + threadIdx.x] = result[threadIdx.x].y;
  }
  if (!last_block(site.ticket, (tiles + site.group - 1) / site.group)) return;
  if (back) merge_means(site, rows, true, result);
  else merge_statistics(site, rows, true, (float*)result);
}

// A normalisation's scale and shift, which `found` (shared, 2 * D) may hold: in training out of the
// tiles' moments unless `merge_group` has settled them, in inference as they are known. In training
// one block of the batch settles them for later kernels.
__device__ const float* find_statistics(const Site& site, int rows, bool train, bool settle, float* found) {
  if (NORM != 1 || !site.stats || !train || site.group > 1) return site.stats + 2 * D;
  merge_statistics(site, rows, settle, found);
  return found;
}

// The same for the backward pass; and the settled statistics, mean, 1/deviation and scale, into
// `settled` (shared, 3 * D).
__device__ void find_means(const Site& site, int rows, float2* means, float* settled) {
  const int p = threadIdx.x;
  if (p < D)
#pragma unroll
    for (int i = 0; i < 3; i++) copy_value(settled + i * D + p, STAT(i) + p);
  if (site.group == 1) return merge_means(site, rows, false, means);
  if (p < D) {
    means[p] = make_float2(STAT(4)[p], STAT(5)[p]);
    wait_for_all_copies();
  }
  __syncthreads();
}

// Statistics for inference.
extern "C" __global__ void use_running(const Site* sites) {
  const Site site = sites[blockIdx.x];
  for (int p = threadIdx.x; p < D; p += blockDim.x) {
    const float inverse = rsqrtf(site.running[D + p] + EPSILON), scale = site.gamma[p] * inverse;
    STAT(0)[p] = site.running[p];
    STAT(1)[p] = inverse;
    STAT(2)[p] = scale;
    STAT(3)[p] = site.beta[p] - site.running[p] * scale;
  }
}

// Gradients of gamma and beta, out of what the tiles left. A block per normalisation.
extern "C" __global__ void __launch_bounds__(THREADS, PLACES) settle_gradients(Batch b, const Site* sites) {
  const Site site = sites[blockIdx.x];
  __shared__ float2 sums[D];
  merge_sums(items_of(site, site.sums, site.edges ? b.control->edges : b.control->nodes), sums);
  if (threadIdx.x < D) {
    site.dbeta[threadIdx.x] = sums[threadIdx.x].x;
    site.dgamma[threadIdx.x] = sums[threadIdx.x].y;
  }
}

// Mean and 1/deviation of a row in shared memory, in all lanes of the warp.
__device__ __forceinline__ float2 row_statistics(const float* row) {
  const int lane = threadIdx.x % 32;
  float sum = 0.f, squares = 0.f;
  for (int p = lane; p < D; p += 32) sum += row[p];
  const float mean = warp_sum(sum) / WIDTH;
  for (int p = lane; p < D; p += 32) {
    const float off = real_channel(p) ? row[p] - mean : 0.f;
    squares += off * off;
  }
  return make_float2(mean, rsqrtf(warp_sum(squares) / WIDTH + EPSILON));
}

// A thread's share of a tile's rows, on their way from device memory; rows from `rows` on are 0.
#define SHARES (2 * PIECES)
struct Share {
  float4 v[SHARES];
};

// The place of a share's i-th four values.
#define SHARE_ROWS (ROWS / SHARES)
__device__ __forceinline__ int share_row(int i) { return threadIdx.x / (D / 4) + i * SHARE_ROWS; }
__device__ __forceinline__ int share_place() { return threadIdx.x % (D / 4) * 4; }

__device__ __forceinline__ Share fetch(const float* x, int row0, int rows) {
  Share s;
#pragma unroll
  for (int i = 0; i < SHARES; i++) {
    const size_t row = row0 + share_row(i);
    s.v[i] = row < rows ? *(const float4*)(x + row * D + share_place()) : make_float4(0.f, 0.f, 0.f, 0.f);
  }
  return s;
}

// A thread's share of a tile in shared memory.
__device__ __forceinline__ Share from_tile(const float* tile) {
  Share s;
#pragma unroll
  for (int i = 0; i < SHARES; i++) s.v[i] = *(const float4*)(tile + share_row(i) * PADDED(D) + share_place());
  return s;
}

// Begins to copy a thread's share of rows, `stride` apart, into a tile; rows from `rows` on are 0,
// and all without `x`.
__device__ __forceinline__ void fetch_later(const float* x, int row0, int rows, float* tile, int stride = D) {
#pragma unroll
  for (int i = 0; i < SHARES; i++) {
    const int row = row0 + share_row(i);
    const bool real = x && row < rows;
    copy_or_zero(tile + share_row(i) * PADDED(D) + share_place(), x + (real ? (size_t)row * stride + share_place() : 0), real);
  }
}

// Four neighbouring values, normalised over the batch.
__device__ __forceinline__ float4 scaled(float4 v, const float* normal, int p) {
  const float4 scale = *(const float4*)(normal + p), shift = *(const float4*)(normal + D + p);
  return make_float4(v.x * scale.x + shift.x, v.y * scale.y + shift.y, v.z * scale.z + shift.z, v.w * scale.w + shift.w);
}

// Puts fetched rows into a tile, normalised by `site` unless it is empty, `normal` being its scale
// and shift.
__device__ void put_normalised(const Share& x, const Site& site, const float* normal, int row0, int rows, float* tile) {
#pragma unroll
  for (int i = 0; i < SHARES; i++) {
    const int r = share_row(i), p = share_place();
    const bool normal_here = NORM == 1 && site.stats && row0 + r < rows;
    *(float4*)(tile + r * PADDED(D) + p) = normal_here ? scaled(x.v[i], normal, p) : x.v[i];
  }
  if (NORM == 2 && site.gamma) {
    __syncthreads();
    for (int r = threadIdx.x / 32; r < ROWS && row0 + r < rows; r += THREADS / 32) {
      float* row = tile + r * PADDED(D);
      const float2 s = row_statistics(row);
      for (int p = threadIdx.x % 32; p < D; p += 32) row[p] = (row[p] - s.x) * s.y * site.gamma[p] + site.beta[p];
    }
  }
  __syncthreads();
}

// Fetched rows, normalised likewise; the tile is for layer normalisation to work in.
__device__ Share normalised(Share x, const Site& site, const float* normal, int row0, int rows, float* tile) {
  if (NORM == 2) {
    put_normalised(x, site, normal, row0, rows, tile);
    return from_tile(tile);
  }
#pragma unroll
  for (int i = 0; i < SHARES; i++)
    if (NORM == 1 && site.stats) x.v[i] = scaled(x.v[i], normal, share_place());
  return x;
}

// Rows of x into a tile, normalised by statistics that are not settled yet.
__device__ void load_normalised(const float* x, const Site& site, bool settle, int row0, int rows, bool train, float* tile) {
  __shared__ __align__(16) float found[2 * D];
  // Rows come into the tile, not into registers, which partial statistics need.
  fetch_later(x, row0, rows, tile);
  const float* normal = find_statistics(site, rows, train, settle, found);
  wait_for_all_copies();
  put_normalised(from_tile(tile), site, normal, row0, rows, tile);
}

// Leaves the mean and the sum of squared deviations of a tile that is about to be normalised by
// `site`; deviations are taken from the first row, which is one of them.
__device__ void add_statistics(const Site& site, const float* tile, int tile_number, int row0, int rows, bool train) {
  if (NORM != 1 || !train) return;
  __shared__ float2 sums[D];
  const int count = max(0, min(ROWS, rows - row0));
  const float pivot = tile[threadIdx.x % D];
  const float2 pivots = *(const float2*)(tile + threadIdx.x % (D / 2) * 2);
  const auto get = [&](int r, int p) { return *(const float2*)(tile + r * PADDED(D) + p); };
  sum_items(count, sums, get, [&](int, int, float2 v) {
    const float one = v.x - pivots.x, two = v.y - pivots.y;
    return make_float4(one, one * one, two, two * two);
  });
  float* own = site.moments + (size_t)tile_number * 2 * D;
  if (threadIdx.x < D) {
    const float2 sum = sums[threadIdx.x];
    const float off = sum.x / max(count, 1);
    own[threadIdx.x] = pivot + off;
    own[D + threadIdx.x] = fmaxf(sum.y - sum.x * off, 0.f);
  }
}

// What the sums of a tile's gradients need besides them: a thread's share of its rows before
// normalisation, and the statistics.
struct Before {
  float2 x[AT_ONCE], mean, inverse;
};

__device__ __forceinline__ Before fetch_before(const Site& site, const float* x, int pitch, int row0, int rows) {
  const int p = threadIdx.x % (D / 2) * 2, slice = threadIdx.x / (D / 2);
  Before before;
  before.mean = *(const float2*)(STAT(0) + p);
  before.inverse = *(const float2*)(STAT(1) + p);
#pragma unroll
  for (int i = 0; i < AT_ONCE; i++)
    if (row0 + slice + i * SLICES < rows) before.x[i] = *(const float2*)(x + (slice + i * SLICES) * pitch + p);
  return before;
}

// Leaves a tile's sums of dy and dy * x^; the tile holds dy.
__device__ __forceinline__ void add_gradient_sums(const Site& site, const float* tile, const Before& before, int tile_number, int row0, int rows) {
  static_assert(AT_ONCE * SLICES == ROWS, "a share is all that a thread has of a tile");
  __shared__ float2 sums[D];
  const int p = threadIdx.x % (D / 2) * 2, slice = threadIdx.x / (D / 2);
  float4 sum = make_float4(0.f, 0.f, 0.f, 0.f);
#pragma unroll
  for (int i = 0; i < AT_ONCE; i++)
    if (row0 + slice + i * SLICES < rows) {
      const float2 dy = *(const float2*)(tile + (slice + i * SLICES) * PADDED(D) + p), x = before.x[i];
      sum = sum_of(sum, make_float4(dy.x, dy.x * (x.x - before.mean.x) * before.inverse.x, dy.y, dy.y * (x.y - before.mean.y) * before.inverse.y));
    }
  add_slices(sum, sums);
  float* own = site.sums + (size_t)tile_number * 2 * D;
  if (threadIdx.x < D) {
    own[threadIdx.x] = sums[threadIdx.x].x;
    own[D + threadIdx.x] = sums[threadIdx.x].y;
  }
}

// Loads a tile of dy and turns it into one of dx; `other` is a tile to work in. For layer
// normalisation this also leaves the sums for gamma and beta.
__device__ void load_backward(const Site& site, const float* dy, const float* x, int tile_number, int row0, int rows, float* tile, float* other) {
  __shared__ __align__(16) float2 means[D];
  __shared__ __align__(16) float settled[3 * D];
  // As in `load_normalised`.
  fetch_later(dy, row0, rows, tile);
  if (NORM != 0) fetch_later(x, row0, rows, other);
  if (NORM == 1) find_means(site, rows, means, settled);
  wait_for_all_copies();
  const Share g = from_tile(tile), before = NORM != 0 ? from_tile(other) : Share();
#pragma unroll
  for (int i = 0; i < SHARES; i++) {
    const int r = share_row(i), p = share_place();
    float4 v = g.v[i];
    if (NORM == 1 && row0 + r < rows) {
      const float4 mean = *(const float4*)(settled + p), inverse = *(const float4*)(settled + D + p), scale = *(const float4*)(settled + 2 * D + p), b = before.v[i];
      v.x = scale.x * (v.x - means[p].x - (b.x - mean.x) * inverse.x * means[p].y);
      v.y = scale.y * (v.y - means[p + 1].x - (b.y - mean.y) * inverse.y * means[p + 1].y);
      v.z = scale.z * (v.z - means[p + 2].x - (b.z - mean.z) * inverse.z * means[p + 2].y);
      v.w = scale.w * (v.w - means[p + 3].x - (b.w - mean.w) * inverse.w * means[p + 3].y);
    }
    *(float4*)(tile + r * PADDED(D) + p) = v;
  }
  __syncthreads();
  if (NORM == 2) {
    const int lane = threadIdx.x % 32;
    __shared__ float inverses[ROWS];
    for (int r = threadIdx.x / 32; r < ROWS; r += THREADS / 32) {
      float* row = other + r * PADDED(D);
      const float2 s = row_statistics(row);
      for (int p = lane; p < D; p += 32) row[p] = real_channel(p) ? (row[p] - s.x) * s.y : 0.f;
      if (lane == 0) inverses[r] = s.y;
    }
    __syncthreads();
    const auto get = [&](int r, int p) { return *(const float2*)(tile + r * PADDED(D) + p); };
    sum_items(max(0, min(ROWS, rows - row0)), means, get, [&](int r, int p, float2 dy) {
      const float2 x = *(const float2*)(other + r * PADDED(D) + p);
      return make_float4(dy.x, dy.x * x.x, dy.y, dy.y * x.y);
    });
    float* own = site.sums + (size_t)tile_number * 2 * D;
    if (threadIdx.x < D) {
      own[threadIdx.x] = means[threadIdx.x].x;
      own[D + threadIdx.x] = means[threadIdx.x].y;
    }
    for (int r = threadIdx.x / 32; r < ROWS && row0 + r < rows; r += THREADS / 32) {
      float* row = tile + r * PADDED(D);
      const float* normal = other + r * PADDED(D);
      float a = 0.f, b = 0.f;
      for (int q = lane; q < D; q += 32) {
        const float v = row[q] * site.gamma[q];
        a += v;
        b += v * normal[q];
      }
      a = warp_sum(a) / WIDTH;
      b = warp_sum(b) / WIDTH;
      for (int q = lane; q < D; q += 32) row[q] = real_channel(q) ? (row[q] * site.gamma[q] - a - normal[q] * b) * inverses[r] : 0.f;
    }
    __syncthreads();
  }
}
