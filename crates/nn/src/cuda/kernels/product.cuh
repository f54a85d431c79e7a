// c = a * w: a [ROWS, K] and c [ROWS, N] in shared memory with four values of padding per row, w [K, N] in device memory (it stays in the first-level cache).
// All threads of the block take part; K and N are multiples of 16.

#define PADDED(width) ((width) + 4)

#if PRECISION == 0

template <int K, int N>
__device__ void product(const float* a, const float* w, float* c) {
  constexpr int TALL = ROWS / 8;  // rows per thread
  constexpr int WIDE = N / 4;
  for (int unit = threadIdx.x; unit < WIDE * 8; unit += THREADS) {
    const int column = unit % WIDE * 4, row = unit / WIDE * TALL;
    float sum[TALL][4];
#pragma unroll
    for (int r = 0; r < TALL; r++)
#pragma unroll
      for (int j = 0; j < 4; j++) sum[r][j] = 0.f;
#pragma unroll 4
    for (int k = 0; k < K; k += 4) {
      float4 x[TALL];
#pragma unroll
      for (int r = 0; r < TALL; r++) x[r] = *(const float4*)(a + (row + r) * PADDED(K) + k);
#pragma unroll
      for (int kk = 0; kk < 4; kk++) {
        const float4 y = __ldg((const float4*)(w + (k + kk) * N + column));
#pragma unroll
        for (int r = 0; r < TALL; r++) {
          const float v = kk == 0 ? x[r].x : kk == 1 ? x[r].y : kk == 2 ? x[r].z : x[r].w;
          sum[r][0] += v * y.x;
          sum[r][1] += v * y.y;
          sum[r][2] += v * y.z;
          sum[r][3] += v * y.w;
        }
      }
    }
#pragma unroll
    for (int r = 0; r < TALL; r++) *(float4*)(c + (row + r) * PADDED(N) + column) = make_float4(sum[r][0], sum[r][1], sum[r][2], sum[r][3]);
  }
}

#else

#if PRECISION == 1
#define STEP 8
typedef u32 Fragment;
__device__ __forceinline__ u32 rounded(float v) {
  u32 r;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(r) : "f"(v));
  return r;
}
// d += a * b: a 16 x 8, b 8 x 8.
__device__ __forceinline__ void multiply(float (&d)[4], const u32 (&a)[4], const u32 (&b)[2]) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
// Fragments of a(row, k) and b(k, column), both given as functions.
template <class F>
__device__ __forceinline__ void load_a(u32 (&a)[4], F at) {
  const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
  a[0] = rounded(at(g, t));
  a[1] = rounded(at(g + 8, t));
  a[2] = rounded(at(g, t + 4));
  a[3] = rounded(at(g + 8, t + 4));
}
template <class F>
__device__ __forceinline__ void load_b(u32 (&b)[2], F at) {
  const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
  b[0] = rounded(at(t, g));
  b[1] = rounded(at(t + 4, g));
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
__device__ __forceinline__ void load_a(u32 (&a)[4], F at) {
  const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4 * 2;
  a[0] = rounded(at(g, t), at(g, t + 1));
  a[1] = rounded(at(g + 8, t), at(g + 8, t + 1));
  a[2] = rounded(at(g, t + 8), at(g, t + 9));
  a[3] = rounded(at(g + 8, t + 8), at(g + 8, t + 9));
}
template <class F>
__device__ __forceinline__ void load_b(u32 (&b)[2], F at) {
  const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4 * 2;
  b[0] = rounded(at(t, g), at(t + 1, g));
  b[1] = rounded(at(t + 8, g), at(t + 9, g));
}
#endif

template <int K, int N>
__device__ void product(const float* a, const float* w, float* c) {
  constexpr int TALL = ROWS / 16;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  // A warp takes sixteen columns at a time, all rows.
  for (int column = warp * 16; column < N; column += THREADS / 2) {
    float sum[TALL][2][4];
#pragma unroll
    for (int r = 0; r < TALL; r++)
#pragma unroll
      for (int n = 0; n < 2; n++)
#pragma unroll
        for (int j = 0; j < 4; j++) sum[r][n][j] = 0.f;
#pragma unroll 4
    for (int k = 0; k < K; k += STEP) {
      u32 x[TALL][4], y[2][2];
#pragma unroll
      for (int n = 0; n < 2; n++) load_b(y[n], [&](int kk, int j) { return __ldg(w + (k + kk) * N + column + n * 8 + j); });
#pragma unroll
      for (int r = 0; r < TALL; r++) load_a(x[r], [&](int i, int kk) { return a[(r * 16 + i) * PADDED(K) + k + kk]; });
#pragma unroll
      for (int r = 0; r < TALL; r++)
#pragma unroll
        for (int n = 0; n < 2; n++) multiply(sum[r][n], x[r], y[n]);
    }
    const int g = lane / 4, t = lane % 4 * 2;
#pragma unroll
    for (int r = 0; r < TALL; r++)
#pragma unroll
      for (int n = 0; n < 2; n++) {
        float* to = c + (r * 16 + g) * PADDED(N) + column + n * 8 + t;
        *(float2*)to = make_float2(sum[r][n][0], sum[r][n][1]);
        *(float2*)(to + 8 * PADDED(N)) = make_float2(sum[r][n][2], sum[r][n][3]);
      }
  }
}

#endif
