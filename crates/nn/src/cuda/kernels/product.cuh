// c = a * w: a [ROWS, K] in shared memory with four values of padding per row, w [K, N] in device memory, packed in the order in which lanes take it. All threads of the block
// take part; K and N are multiples of 16. A warp computes 16 x 16 entries of D columns at a time: as many warps as there are such pieces.
//
// Weights depend on no other block, so they are under way before anything else: a kernel's matrices pass through a ring of STAGES stages in shared memory, one after the
// other, in chunks of CHUNK steps along k and D columns.
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

// Copies sixteen bytes into shared memory, some time before `wait_for_copies`.
__device__ __forceinline__ void copy_later(uint4* to, const uint4* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"((u32)__cvta_generic_to_shared(to)), "l"(from) : "memory");
}

// Likewise, or zeroes.
__device__ __forceinline__ void copy_or_zero(float* to, const float* from, bool real) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"((u32)__cvta_generic_to_shared(to)), "l"(from), "r"(real ? 16 : 0) : "memory");
}

// Copies one value likewise; the thread that asked for it may read it after `wait_for_all_copies`, others after a barrier.
__device__ __forceinline__ void copy_value(float* to, const float* from) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"((u32)__cvta_generic_to_shared(to)), "l"(from) : "memory");
}

__device__ __forceinline__ void wait_for_all_copies() { asm volatile("cp.async.wait_all;" ::: "memory"); }

// Ends a group of copies.
__device__ __forceinline__ void end_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Waits until no more than so many groups, the latest, are under way.
template <int GROUPS_LEFT>
__device__ __forceinline__ void wait_for_copies() { asm volatile("cp.async.wait_group %0;" ::"n"(GROUPS_LEFT) : "memory"); }

#define STEP_WORDS (2 * D)                         // uint4 of a step along k, D columns
#define WORDS_OF_COLUMN (D / STEP * STEP_WORDS * 4 / D)  // floats, D rows
#define STAGE_WORDS (TERMS * CHUNK * STEP_WORDS)   // uint4
#define RING (STAGES * STAGE_WORDS * 4)            // floats

extern __shared__ float shared[];
// What a kernel has besides the ring.
__device__ __forceinline__ float* tiles_memory() { return shared + RING; }

// One or two matrices on their way through the ring, which begins shared memory.
template <int K1, int N1, int K2 = 0, int N2 = 0>
struct Weights {
  static __device__ constexpr int chunks(int k, int n) { return (n + D - 1) / D * ((k / STEP + CHUNK - 1) / CHUNK); }
  const uint4 *first, *second;
  int taken;  // chunks so far

  __device__ Weights(const float* one, const float* two = nullptr) : first((const uint4*)one), second((const uint4*)two), taken(0) {
#pragma unroll
    for (int i = 0; i < STAGES - 1; i++) send(i);
  }

  // Chunks of a matrix lie one after the other; those of the last columns may be narrower.
  template <int K, int N>
  __device__ void send_of(const uint4* w, int chunk, uint4* stage) {
    constexpr int DEEP = (K / STEP + CHUNK - 1) / CHUNK;
    const int k = chunk % DEEP * CHUNK, left = N % D == 0 ? D : min(D, N - chunk / DEEP * D);
    const uint4* from = w + (size_t)chunk / DEEP * (K / STEP) * STEP_WORDS + k * 2 * left;
    const int words = (K / STEP % CHUNK == 0 ? CHUNK : min(CHUNK, K / STEP - k)) * 2 * left;
#pragma unroll
    for (int term = 0; term < TERMS; term++)
#pragma unroll
      for (int base = 0; base < CHUNK * STEP_WORDS; base += THREADS) {
        const int at = base + threadIdx.x;
        // What rounding left lies a whole array of parameters further.
        if (at < words) copy_later(stage + term * CHUNK * STEP_WORDS + at, (const uint4*)((const float*)(from + at) + term * (size_t)PARAMETERS));
      }
  }

  __device__ void send(int chunk) {
    uint4* stage = (uint4*)shared + chunk % STAGES * STAGE_WORDS;
    if (chunk < chunks(K1, N1)) send_of<K1, N1>(first, chunk, stage);
    else if (K2 > 0 && chunk < chunks(K1, N1) + chunks(K2, N2)) send_of<K2, N2>(second, chunk - chunks(K1, N1), stage);
    end_copies();
  }

  // The next matrix on the right; put(row, column, two neighbouring entries, what get(row, column) brought meanwhile) takes the result. `a` may have been written just before.
  template <int K, int N, class G, class F>
  __device__ void product(const float* a, G get, F put) {
    constexpr int DEEP = (K / STEP + CHUNK - 1) / CHUNK;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, row = warp / (D / 16) * 16, own = warp % (D / 16);
    int left = D;
#pragma unroll 1
    for (int panel = own; panel - own < N / 16; panel += D / 16) {
      if (N % D != 0) left = min(D, N - (panel - own) * 16);
      const int g = lane / 4, t = lane % 4 * 2;
      float2 met[2][2] = {};
      if (N % D == 0 || panel < N / 16)
#pragma unroll
        for (int i = 0; i < 4; i++) met[i / 2][i % 2] = get(row + g + i % 2 * 8, panel * 16 + i / 2 * 8 + t);
      float sum[2][4] = {};
#pragma unroll 1
      for (int k = 0; k < DEEP; k++) {
        wait_for_copies<STAGES - 2>();
        // Also: everybody is done with the chunk before, whose stage is the next to be filled.
        __syncthreads();
        send(taken + STAGES - 1);
        const uint4* stage = (const uint4*)shared + taken % STAGES * STAGE_WORDS + own * 32 + lane;
        taken++;
        if (N % D != 0 && panel >= N / 16) continue;
#pragma unroll
        for (int i = 0; i < CHUNK; i++) {
          if (K / STEP % CHUNK != 0 && k * CHUNK + i >= K / STEP) break;
          u32 x[TERMS][4], y[2][TERMS][2];
#pragma unroll
          for (int term = 0; term < TERMS; term++) {
            const uint4 both = stage[term * CHUNK * STEP_WORDS + i * 2 * (N % D == 0 ? D : left)];
            y[0][term][0] = both.x;
            y[0][term][1] = both.y;
            y[1][term][0] = both.z;
            y[1][term][1] = both.w;
          }
          load_tile(x, a + row * PADDED(K) + (k * CHUNK + i) * STEP, PADDED(K));
#pragma unroll
          for (int n = 0; n < 2; n++) multiply_all(sum[n], x, y[n]);
        }
      }
      if (N % D != 0 && panel >= N / 16) continue;
#pragma unroll
      for (int i = 0; i < 4; i++)
        put(row + g + i % 2 * 8, panel * 16 + i / 2 * 8 + t, make_float2(sum[i / 2][i % 2 * 2], sum[i / 2][i % 2 * 2 + 1]), met[i / 2][i % 2]);
    }
  }
};

// For products that need nothing else.
__device__ __forceinline__ auto nothing_else() {
  return [](int, int) { return make_float2(0.f, 0.f); };
}
