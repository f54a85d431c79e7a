// Normalisations (NORM: 0 none, 1 over the rows of the batch, 2 over the channels of a row) on tiles of ROWS rows.
//
// Batch: statistics per tile as mean and sum of squared deviations, merged in the tiles' order; dx = scale * (dy - mean(dy) - x^ * mean(dy * x^)).
// Layer: g = gamma * dy; dx = (g - mean(g) - x^ * mean(g * x^)) / deviation, a row's statistics computed again rather than kept.

#define STAT(n) (site.stats + (n) * D)

// Sums over tiles, or over groups of GROUP_TILES tiles, are taken in two steps, each by the block that comes last: first within its group, then over the groups. So no
// block reads more than a few of them, and which one comes last changes nothing.
#define GROUP_TILES 32
#define SLICES (THREADS / (D / 4))

// Sum over `count` items of something per channel, in a fixed order, by the whole block: a thread takes four channels of every SLICES-th item. The result is in
// `sums` (shared), to be read after the call.
__device__ __forceinline__ float4* sum_slices() {
  // One for all uses: an array inside the template would be one per use.
  __shared__ float4 slices[THREADS];
  return slices;
}

template <class F>
__device__ void sum_items(int count, float* sums, F value) {
  float4* slices = sum_slices();
  const int p = threadIdx.x % (D / 4), slice = threadIdx.x / (D / 4);
  float4 sum = make_float4(0.f, 0.f, 0.f, 0.f);
#pragma unroll 4
  for (int i = slice; i < count; i += SLICES) {
    const float4 v = value(i, 4 * p);
    sum.x += v.x;
    sum.y += v.y;
    sum.z += v.z;
    sum.w += v.w;
  }
  slices[threadIdx.x] = sum;
  __syncthreads();
  if (slice == 0) {
#pragma unroll
    for (int s = 1; s < SLICES; s++) {
      const float4 v = slices[s * (D / 4) + p];
      sum.x += v.x;
      sum.y += v.y;
      sum.z += v.z;
      sum.w += v.w;
    }
    *(float4*)(sums + 4 * p) = sum;
  }
  __syncthreads();
}

// Two rows of D numbers per tile; those of groups lie after those of all tiles.
__device__ __forceinline__ float* partial_of(const Site& site, int item, bool group) {
  return site.partial + (size_t)((group ? site.tiles : 0) + item) * 2 * D;
}

__device__ __forceinline__ float4 partial_at(const Site& site, int item, bool group, int second, int p) {
  return __ldcg((const float4*)(partial_of(site, item, group) + second * D + p));
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

// Rows of x from row0 on into a tile, normalised unless the site is empty; rows from `rows` on are 0.
__device__ void load_normalised(const float* x, const Site& site, int row0, int rows, float* tile) {
  for (int at = threadIdx.x; at < ROWS * D / 4; at += THREADS) {
    const int r = at / (D / 4), p = at % (D / 4) * 4;
    float4 v = make_float4(0.f, 0.f, 0.f, 0.f);
    if (row0 + r < rows) {
      v = *(const float4*)(x + (size_t)(row0 + r) * D + p);
      if (NORM == 1 && site.stats) {
        const float4 scale = *(const float4*)(STAT(2) + p), shift = *(const float4*)(STAT(3) + p);
        v = make_float4(v.x * scale.x + shift.x, v.y * scale.y + shift.y, v.z * scale.z + shift.z, v.w * scale.w + shift.w);
      }
    }
    *(float4*)(tile + r * PADDED(D) + p) = v;
  }
  __syncthreads();
  if (NORM == 2 && site.gamma) {
    for (int r = threadIdx.x / 32; r < ROWS && row0 + r < rows; r += THREADS / 32) {
      float* row = tile + r * PADDED(D);
      const float2 s = row_statistics(row);
      for (int p = threadIdx.x % 32; p < D; p += 32) row[p] = (row[p] - s.x) * s.y * site.gamma[p] + site.beta[p];
    }
    __syncthreads();
  }
}

// Sum, and sum of squared deviations from the common mean, of `count` items of `size` rows each (the last of all has fewer). The mean first, then the deviations from it:
// sums that cannot cancel.
__device__ void merge_moments(const Site& site, int count, int first, bool group, int size, int rows, float* sums, float* squared) {
  const int all = max(1, min(rows, (first + count) * size) - first * size);
  sum_items(count, sums, [&](int i, int q) {
    const float4 mean = partial_at(site, first + i, group, 0, q);
    const float n = min(size, rows - (first + i) * size);
    return make_float4(n * mean.x, n * mean.y, n * mean.z, n * mean.w);
  });
  const float each = 1.f / all;
  sum_items(count, squared, [&](int i, int q) {
    const float4 mean = partial_at(site, first + i, group, 0, q), squares = partial_at(site, first + i, group, 1, q), sum = *(const float4*)(sums + q);
    const float n = min(size, rows - (first + i) * size);
    const float4 off = make_float4(mean.x - sum.x * each, mean.y - sum.y * each, mean.z - sum.z * each, mean.w - sum.w * each);
    return make_float4(squares.x + n * off.x * off.x, squares.y + n * off.y * off.y, squares.z + n * off.z * off.z, squares.w + n * off.w * off.w);
  });
}

// Mean and sum of squared deviations of the columns of a tile that is about to be normalised by `site`; the last block makes them the batch's statistics.
__device__ void add_statistics(const Site& site, const float* tile, int tile_number, int row0, int rows, bool train) {
  if (NORM != 1 || !train) return;
  __shared__ float halves[2][D];
  const int p = threadIdx.x % D, half = threadIdx.x / D;
  const int count = min(ROWS, rows - row0);
  const int from = half * (ROWS / 2), to = min(count, from + ROWS / 2);
  float sum = 0.f;
  for (int r = from; r < to; r++) sum += tile[r * PADDED(D) + p];
  halves[half][p] = sum;
  __syncthreads();
  const float mean = count > 0 ? (halves[0][p] + halves[1][p]) / count : 0.f;
  __syncthreads();
  float squares = 0.f;
  for (int r = from; r < to; r++) {
    const float off = tile[r * PADDED(D) + p] - mean;
    squares += off * off;
  }
  halves[half][p] = squares;
  __syncthreads();
  if (half == 0) {
    float* own = partial_of(site, tile_number, false);
    own[p] = mean;
    own[D + p] = halves[0][p] + halves[1][p];
  }
  const int tiles = tiles_of(rows), groups = (tiles + GROUP_TILES - 1) / GROUP_TILES, group = tile_number / GROUP_TILES;
  const int first = group * GROUP_TILES, in_group = min(GROUP_TILES, tiles - first);
  __shared__ __align__(16) float sums[D], squared[D];
  if (!last_block(site.ticket + 1 + group, in_group)) return;
  merge_moments(site, in_group, first, false, ROWS, rows, sums, squared);
  if (half == 0) {
    float* own = partial_of(site, group, true);
    const int n = max(1, min(rows, (first + in_group) * ROWS) - first * ROWS);
    own[p] = sums[p] / n;
    own[D + p] = squared[p];
  }
  if (!last_block(site.ticket, groups)) return;
  merge_moments(site, groups, 0, true, ROWS * GROUP_TILES, rows, sums, squared);
  const float each = rows > 0 ? 1.f / rows : 0.f;
  if (half == 0 && rows > 0) {
    const float all = sums[p] * each, total = squared[p];
    const float inverse = rsqrtf(total / rows + EPSILON), scale = site.gamma[p] * inverse;
    STAT(0)[p] = all;
    STAT(1)[p] = inverse;
    STAT(2)[p] = scale;
    STAT(3)[p] = site.beta[p] - all * scale;
    site.running[p] += MOMENTUM * (all - site.running[p]);
    if (rows > 1) site.running[D + p] += MOMENTUM * (total / (rows - 1) - site.running[D + p]);
  }
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

// Adds up the tiles' sums of dy and dy * x^: gradients of gamma and beta, and the means that going back through the rows of a batch needs. Called by every block
// once its own sums are written.
__device__ void finish_gradient_sums(const Site& site, int tile_number, int rows) {
  const int tiles = tiles_of(rows), groups = (tiles + GROUP_TILES - 1) / GROUP_TILES, group = tile_number / GROUP_TILES;
  const int first = group * GROUP_TILES, in_group = min(GROUP_TILES, tiles - first);
  __shared__ __align__(16) float sums[2 * D];
  if (!last_block(site.ticket + 1 + group, in_group)) return;
  sum_items(in_group, sums, [&](int i, int q) { return partial_at(site, first + i, false, 0, q); });
  sum_items(in_group, sums + D, [&](int i, int q) { return partial_at(site, first + i, false, 1, q); });
  partial_of(site, group, true)[threadIdx.x] = sums[threadIdx.x];
  if (!last_block(site.ticket, groups)) return;
  sum_items(groups, sums, [&](int i, int q) { return partial_at(site, i, true, 0, q); });
  sum_items(groups, sums + D, [&](int i, int q) { return partial_at(site, i, true, 1, q); });
  const int p = threadIdx.x % D, half = threadIdx.x / D;
  const float sum = sums[threadIdx.x];
  if (NORM == 1) STAT(4)[threadIdx.x] = rows > 0 ? sum / rows : 0.f;
  (half == 0 ? site.dbeta : site.dgamma)[p] = sum;
}

// Sums of dy and dy * x^ over the columns of a tile; the last block makes them the gradients of gamma and beta, and the means that `backward` needs.
// `tile` holds dy, `x` the rows before normalisation.
__device__ void add_gradient_sums(const Site& site, const float* tile, const float* x, int tile_number, int row0, int rows) {
  __shared__ float halves[2][2][D];
  const int p = threadIdx.x % D, half = threadIdx.x / D;
  const int from = half * (ROWS / 2), to = min(rows - row0, from + ROWS / 2);
  float first = 0.f, second = 0.f;
  const float mean = NORM == 1 ? STAT(0)[p] : 0.f, inverse = NORM == 1 ? STAT(1)[p] : 1.f;
  for (int r = from; r < to; r++) {
    const float dy = tile[r * PADDED(D) + p];
    first += dy;
    second += dy * (x[(size_t)(row0 + r) * D + p] - mean) * inverse;
  }
  halves[half][0][p] = first;
  halves[half][1][p] = second;
  __syncthreads();
  partial_of(site, tile_number, false)[threadIdx.x] = halves[0][half][p] + halves[1][half][p];
  finish_gradient_sums(site, tile_number, rows);
}

// Loads a tile of dy and turns it into one of dx; `other` is a tile to work in. For layer normalisation this also adds up the gradients of gamma and beta.
__device__ void load_backward(const Site& site, const float* dy, const float* x, int tile_number, int row0, int rows, float* tile, float* other) {
  for (int at = threadIdx.x; at < ROWS * D / 4; at += THREADS) {
    const int r = at / (D / 4), p = at % (D / 4) * 4;
    float4 g = make_float4(0.f, 0.f, 0.f, 0.f), v = g;
    if (row0 + r < rows) {
      g = *(const float4*)(dy + (size_t)(row0 + r) * D + p);
      if (NORM != 0) v = *(const float4*)(x + (size_t)(row0 + r) * D + p);
      if (NORM == 1) {
        const float4 mean = *(const float4*)(STAT(0) + p), inverse = *(const float4*)(STAT(1) + p), scale = *(const float4*)(STAT(2) + p);
        const float4 first = *(const float4*)(STAT(4) + p), second = *(const float4*)(STAT(5) + p);
        g.x = scale.x * (g.x - first.x - (v.x - mean.x) * inverse.x * second.x);
        g.y = scale.y * (g.y - first.y - (v.y - mean.y) * inverse.y * second.y);
        g.z = scale.z * (g.z - first.z - (v.z - mean.z) * inverse.z * second.z);
        g.w = scale.w * (g.w - first.w - (v.w - mean.w) * inverse.w * second.w);
      }
    }
    *(float4*)(tile + r * PADDED(D) + p) = g;
    if (NORM == 2) *(float4*)(other + r * PADDED(D) + p) = v;
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
    // Gradients of gamma and beta: sums over the tile, then over the tiles.
    __shared__ float halves[2][2][D];
    const int p = threadIdx.x % D, half = threadIdx.x / D;
    const int from = half * (ROWS / 2), to = min(rows - row0, from + ROWS / 2);
    float first = 0.f, second = 0.f;
    for (int r = from; r < to; r++) {
      const float dy = tile[r * PADDED(D) + p];
      first += dy;
      second += dy * other[r * PADDED(D) + p];
    }
    halves[half][0][p] = first;
    halves[half][1][p] = second;
    __syncthreads();
    partial_of(site, tile_number, false)[threadIdx.x] = halves[0][half][p] + halves[1][half][p];
    for (int r = threadIdx.x / 32; r < ROWS && row0 + r < rows; r += THREADS / 32) {
      float* g = tile + r * PADDED(D);
      const float* normal = other + r * PADDED(D);
      float a = 0.f, b = 0.f;
      for (int q = lane; q < D; q += 32) {
        const float v = g[q] * site.gamma[q];
        a += v;
        b += v * normal[q];
      }
      a = warp_sum(a) / WIDTH;
      b = warp_sum(b) / WIDTH;
      for (int q = lane; q < D; q += 32) g[q] = real_channel(q) ? (g[q] * site.gamma[q] - a - normal[q] * b) * inverses[r] : 0.f;
    }
    finish_gradient_sums(site, tile_number, rows);
    __syncthreads();
  }
}
