// Normalisations (NORM: 0 none, 1 over the rows of the batch, 2 over the channels of a row) on tiles of ROWS rows.
//
// Batch: statistics per tile as mean and sum of squared deviations, merged in the tiles' order; dx = scale * (dy - mean(dy) - x^ * mean(dy * x^)).
// Layer: g = gamma * dy; dx = (g - mean(g) - x^ * mean(g * x^)) / deviation, a row's statistics computed again rather than kept.

#define STAT(n) (site.stats + (n) * D)

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
    site.partial[(size_t)tile_number * 2 * D + p] = mean;
    site.partial[(size_t)tile_number * 2 * D + D + p] = halves[0][p] + halves[1][p];
  }
  const int tiles = tiles_of(rows);
  if (!last_block(site.ticket, tiles)) return;
  // The mean first, then the deviations from it: sums that cannot cancel.
  sum = 0.f;
  for (int i = half; i < tiles; i += 2) sum += min(ROWS, rows - i * ROWS) * __ldcg(site.partial + (size_t)i * 2 * D + p);
  halves[half][p] = sum;
  __syncthreads();
  const float all = rows > 0 ? (halves[0][p] + halves[1][p]) / rows : 0.f;
  __syncthreads();
  squares = 0.f;
  for (int i = half; i < tiles; i += 2) {
    const float off = __ldcg(site.partial + (size_t)i * 2 * D + p) - all;
    squares += __ldcg(site.partial + (size_t)i * 2 * D + D + p) + off * off * min(ROWS, rows - i * ROWS);
  }
  halves[half][p] = squares;
  __syncthreads();
  if (half == 0 && rows > 0) {
    const float total = halves[0][p] + halves[1][p];
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
  site.partial[(size_t)tile_number * 2 * D + threadIdx.x] = halves[0][half][p] + halves[1][half][p];
  const int tiles = tiles_of(rows);
  if (!last_block(site.ticket, tiles)) return;
  float sum = 0.f;
  for (int i = 0; i < tiles; i++) sum += __ldcg(site.partial + (size_t)i * 2 * D + threadIdx.x);
  STAT(4)[threadIdx.x] = rows > 0 ? sum / rows : 0.f;
  (half == 0 ? site.dbeta : site.dgamma)[p] = sum;
}

// Turns a tile of dy into one of dx; `other` is a tile to work in. For layer normalisation this also adds up the gradients of gamma and beta.
__device__ void normalise_backward(const Site& site, const float* x, int tile_number, int row0, int rows, float* tile, float* other) {
  if (NORM == 1) {
    for (int at = threadIdx.x; at < ROWS * D; at += THREADS) {
      const int r = at / D, p = at % D;
      if (row0 + r < rows) {
        const float normal = (x[(size_t)(row0 + r) * D + p] - STAT(0)[p]) * STAT(1)[p];
        float* g = tile + r * PADDED(D) + p;
        *g = STAT(2)[p] * (*g - STAT(4)[p] - normal * STAT(5)[p]);
      }
    }
    __syncthreads();
  } else if (NORM == 2) {
    for (int at = threadIdx.x; at < ROWS * D; at += THREADS) {
      const int r = at / D, p = at % D;
      other[r * PADDED(D) + p] = row0 + r < rows ? x[(size_t)(row0 + r) * D + p] : 0.f;
    }
    __syncthreads();
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
    site.partial[(size_t)tile_number * 2 * D + threadIdx.x] = halves[0][half][p] + halves[1][half][p];
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
    const int tiles = tiles_of(rows);
    if (last_block(site.ticket, tiles)) {
      float sum = 0.f;
      for (int i = 0; i < tiles; i++) sum += __ldcg(site.partial + (size_t)i * 2 * D + threadIdx.x);
      (half == 0 ? site.dbeta : site.dgamma)[p] = sum;
    }
    __syncthreads();
  }
}
