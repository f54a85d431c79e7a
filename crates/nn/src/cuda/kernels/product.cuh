// c = a * w: a [ROWS, K] and c [ROWS, N] in shared memory with four values of padding per row, w [K, N] in device memory (it stays in the first-level cache), packed in the
// order in which lanes take it. All threads of the block take part; K and N are multiples of 16.
//
// PRECISION 0: f32, each factor as the sum of two TF32 numbers, of whose four products the smallest is left out: the error is that of f32. 1: TF32. 2: bf16.

#define PADDED(width) ((width) + 4)
#define TERMS (PRECISION == 0 ? 2 : 1)

#if PRECISION < 2
#define STEP 8
__device__ __forceinline__ u32 rounded(float v) {
  u32 r;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(r) : "f"(v));
  return r;
}
// What rounding left.
__device__ __forceinline__ u32 rest(float v, u32 high) { return rounded(v - __uint_as_float(high)); }
// d += a * b: a 16 x 8, b 8 x 8.
__device__ __forceinline__ void multiply(float (&d)[4], const u32 (&a)[4], const u32 (&b)[2]) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
// The share of a lane in a 16 x 8 matrix on the left, at(row, k), and in an 8 x 8 matrix on the right, at(k, column).
template <class F>
__device__ __forceinline__ void load_left(u32 (&a)[TERMS][4], F at) {
  const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
#pragma unroll
  for (int i = 0; i < 4; i++) {
    const float v = at(g + i % 2 * 8, t + i / 2 * 4);
    a[0][i] = rounded(v);
    if (TERMS == 2) a[TERMS - 1][i] = rest(v, a[0][i]);
  }
}
template <class F>
__device__ __forceinline__ void load_right(u32 (&b)[TERMS][2], F at) {
  const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
#pragma unroll
  for (int i = 0; i < 2; i++) {
    const float v = at(t + i * 4, g);
    b[0][i] = rounded(v);
    if (TERMS == 2) b[TERMS - 1][i] = rest(v, b[0][i]);
  }
}
// The share of a lane in the matrix on the left that begins at `tile`, rows `pitch` apart.
__device__ __forceinline__ void load_tile(u32 (&a)[TERMS][4], const float* tile, int pitch) {
  const int lane = threadIdx.x % 32;
  const u32 address = (u32)__cvta_generic_to_shared(tile + (lane % 16) * pitch + lane / 16 * 4);
  u32 v[4];
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3]) : "r"(address) : "memory");
#pragma unroll
  for (int i = 0; i < 4; i++) {
    a[0][i] = rounded(__uint_as_float(v[i]));
    if (TERMS == 2) a[TERMS - 1][i] = rest(__uint_as_float(v[i]), a[0][i]);
  }
}
#else
#define STEP 16
// Two neighbours along k in one register, the first in the lower half.
__device__ __forceinline__ u32 rounded(float low, float high) {
  u32 r;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
  return r;
}
// d += a * b: a 16 x 16, b 16 x 8.
__device__ __forceinline__ void multiply(float (&d)[4], const u32 (&a)[4], const u32 (&b)[2]) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
template <class F>
__device__ __forceinline__ void load_left(u32 (&a)[TERMS][4], F at) {
  const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4 * 2;
#pragma unroll
  for (int i = 0; i < 4; i++) a[0][i] = rounded(at(g + i % 2 * 8, t + i / 2 * 8), at(g + i % 2 * 8, t + i / 2 * 8 + 1));
}
template <class F>
__device__ __forceinline__ void load_right(u32 (&b)[TERMS][2], F at) {
  const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4 * 2;
#pragma unroll
  for (int i = 0; i < 2; i++) b[0][i] = rounded(at(t + i * 8, g), at(t + i * 8 + 1, g));
}
__device__ __forceinline__ void load_tile(u32 (&a)[TERMS][4], const float* tile, int pitch) {
  const float* at = tile + threadIdx.x % 32 / 4 * pitch + threadIdx.x % 4 * 2;
#pragma unroll
  for (int i = 0; i < 4; i++) {
    const float2 v = *(const float2*)(at + i % 2 * 8 * pitch + i / 2 * 8);
    a[0][i] = rounded(v.x, v.y);
  }
}
#endif

// d += a * b, all terms that count; small ones first. Tensor cores cut sums off instead of rounding them, so for f32 the last addition is not theirs.
__device__ __forceinline__ void multiply_all(float (&d)[4], const u32 (&a)[TERMS][4], const u32 (&b)[TERMS][2]) {
  if (TERMS == 1) {
    multiply(d, a[0], b[0]);
    return;
  }
  float sum[4] = {0.f, 0.f, 0.f, 0.f};
  multiply(sum, a[TERMS - 1], b[0]);
  multiply(sum, a[0], b[TERMS - 1]);
  multiply(sum, a[0], b[0]);
#pragma unroll
  for (int i = 0; i < 4; i++) d[i] += sum[i];
}

// What becomes of a product's entries, two neighbours at a time, before they are stored: finish(row, column, two values).
template <int K, int N, class F>
__device__ void product(const float* a, const float* w, float* c, F finish) {
  constexpr int TALL = ROWS / 16, STEPS = K / STEP;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  // A warp takes sixteen columns at a time, all rows.
  for (int panel = warp; panel < N / 16; panel += THREADS / 32) {
    float sum[TALL][2][4];
#pragma unroll
    for (int r = 0; r < TALL; r++)
#pragma unroll
      for (int n = 0; n < 2; n++)
#pragma unroll
        for (int j = 0; j < 4; j++) sum[r][n][j] = 0.f;
    const uint4* packed = (const uint4*)w + panel * 32 + lane;
    // Weights of several steps are on their way before the first is needed. What rounding left lies a whole array of parameters further.
    constexpr int MOST = TERMS == 2 ? 5 : 10;
    constexpr int AHEAD = STEPS % MOST == 0 ? MOST : STEPS % 4 == 0 ? (TERMS == 2 || STEPS % 8 != 0 ? 4 : 8) : STEPS % 3 == 0 ? 3 : STEPS % 2 == 0 ? 2 : 1;
#pragma unroll 1
    for (int k = 0; k < STEPS; k += AHEAD) {
      uint4 both[AHEAD][TERMS];
#pragma unroll
      for (int i = 0; i < AHEAD; i++)
#pragma unroll
        for (int term = 0; term < TERMS; term++) both[i][term] = __ldg((const uint4*)((const float*)(packed + (k + i) * (N / 16) * 32) + term * (size_t)PARAMETERS));
#pragma unroll
      for (int i = 0; i < AHEAD; i++) {
        u32 y[2][TERMS][2];
#pragma unroll
        for (int term = 0; term < TERMS; term++) {
          y[0][term][0] = both[i][term].x;
          y[0][term][1] = both[i][term].y;
          y[1][term][0] = both[i][term].z;
          y[1][term][1] = both[i][term].w;
        }
#pragma unroll
        for (int r = 0; r < TALL; r++) {
          u32 x[TERMS][4];
          load_tile(x, a + r * 16 * PADDED(K) + (k + i) * STEP, PADDED(K));
#pragma unroll
          for (int n = 0; n < 2; n++) multiply_all(sum[r][n], x, y[n]);
        }
      }
    }
    const int g = lane / 4, t = lane % 4 * 2;
#pragma unroll
    for (int r = 0; r < TALL; r++)
#pragma unroll
      for (int n = 0; n < 2; n++) {
        const int row = r * 16 + g, column = panel * 16 + n * 8 + t;
        float* to = c + row * PADDED(N) + column;
        *(float2*)to = finish(row, column, make_float2(sum[r][n][0], sum[r][n][1]));
        *(float2*)(to + 8 * PADDED(N)) = finish(row + 8, column, make_float2(sum[r][n][2], sum[r][n][3]));
      }
  }
}

template <int K, int N>
__device__ void product(const float* a, const float* w, float* c) {
  product<K, N>(a, w, c, [](int, int, float2 v) { return v; });
}
