// c = a * w: a [ROWS, K] and c [ROWS, N] in shared memory with four values of padding per row, w [K, N] in device memory (it stays in the first-level cache).
// All threads of the block take part; K and N are multiples of 16. In reduced precision w is packed: rounded, and in the order in which lanes take it.

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
    // Weights of eight rows are on their way before the first is needed.
#pragma unroll 1
    for (int k = 0; k < K; k += 8) {
      float4 y[8];
#pragma unroll
      for (int kk = 0; kk < 8; kk++) y[kk] = __ldg((const float4*)(w + (k + kk) * N + column));
#pragma unroll
      for (int kk = 0; kk < 8; kk += 4)
#pragma unroll
        for (int r = 0; r < TALL; r++) {
          const float4 x = *(const float4*)(a + (row + r) * PADDED(K) + k + kk);
          const float xs[4] = {x.x, x.y, x.z, x.w};
#pragma unroll
          for (int i = 0; i < 4; i++) {
            sum[r][0] += xs[i] * y[kk + i].x;
            sum[r][1] += xs[i] * y[kk + i].y;
            sum[r][2] += xs[i] * y[kk + i].z;
            sum[r][3] += xs[i] * y[kk + i].w;
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
// The fragment of a tile in shared memory that begins at `tile`, rows `pitch` apart.
__device__ __forceinline__ void load_tile(u32 (&a)[4], const float* tile, int pitch) {
  const int lane = threadIdx.x % 32;
  const u32 address = (u32)__cvta_generic_to_shared(tile + (lane % 16) * pitch + lane / 16 * 4);
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3]) : "r"(address) : "memory");
#pragma unroll
  for (int i = 0; i < 4; i++) a[i] = rounded(__uint_as_float(a[i]));
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
__device__ __forceinline__ void load_tile(u32 (&a)[4], const float* tile, int pitch) {
  const float* at = tile + threadIdx.x % 32 / 4 * pitch + threadIdx.x % 4 * 2;
  const float2 v[4] = {*(const float2*)at, *(const float2*)(at + 8 * pitch), *(const float2*)(at + 8), *(const float2*)(at + 8 * pitch + 8)};
#pragma unroll
  for (int i = 0; i < 4; i++) a[i] = rounded(v[i].x, v[i].y);
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
  for (int panel = warp; panel < N / 16; panel += THREADS / 32) {
    float sum[TALL][2][4];
#pragma unroll
    for (int r = 0; r < TALL; r++)
#pragma unroll
      for (int n = 0; n < 2; n++)
#pragma unroll
        for (int j = 0; j < 4; j++) sum[r][n][j] = 0.f;
    const uint4* packed = (const uint4*)w + panel * 32 + lane;
    // Weights of several steps are on their way before the first is needed.
    constexpr int AHEAD = K / STEP % 10 == 0 ? 10 : K / STEP % 8 == 0 ? 8 : K / STEP % 6 == 0 ? 6 : K / STEP % 2 == 0 ? 2 : 1;
#pragma unroll 1
    for (int k = 0; k < K / STEP; k += AHEAD) {
      uint4 both[AHEAD];
#pragma unroll
      for (int i = 0; i < AHEAD; i++) both[i] = __ldg(packed + (k + i) * (N / 16) * 32);
#pragma unroll
      for (int i = 0; i < AHEAD; i++) {
        const u32 y[2][2] = {{both[i].x, both[i].y}, {both[i].z, both[i].w}};
#pragma unroll
        for (int r = 0; r < TALL; r++) {
          u32 x[4];
          load_tile(x, a + r * 16 * PADDED(K) + (k + i) * STEP, PADDED(K));
#pragma unroll
          for (int n = 0; n < 2; n++) multiply(sum[r][n], x, y[n]);
        }
      }
    }
    const int g = lane / 4, t = lane % 4 * 2;
#pragma unroll
    for (int r = 0; r < TALL; r++)
#pragma unroll
      for (int n = 0; n < 2; n++) {
        float* to = c + (r * 16 + g) * PADDED(N) + panel * 16 + n * 8 + t;
        *(float2*)to = make_float2(sum[r][n][0], sum[r][n][1]);
        *(float2*)(to + 8 * PADDED(N)) = make_float2(sum[r][n][2], sum[r][n][3]);
      }
  }
}

#endif
