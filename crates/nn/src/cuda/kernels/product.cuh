// c = a * w: a [ROWS, K] in shared memory with four values of padding per row, w [K, N] in device
// memory, packed in the order in which lanes take it. All threads of the block take part; K and N
// are multiples of 16. A warp computes 16 x 16 * PIECES entries of D columns at a time: as many
// warps as there are such rows of pieces.
//
// Weights depend on no other block, so they are under way before anything else: a kernel's matrices
// pass through a ring of STAGES stages in shared memory, one after the other, in chunks of CHUNK
// steps along k and D columns.
//
// PRECISION 0: f32, each factor as the sum of two TF32 numbers, of whose four products the smallest
// is left out: the error is that of f32. 1: TF32. 2: bf16.

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
// What a tensor core, which cuts values off, makes a TF32 number of `v`: one of its two neighbours,
// at most 2/3 of their distance away, and `v` where it is one. Rounding to the nearest takes three
// instructions that wait for each other, for NaN and infinity must stay what they are; the product
// takes one, and keeps them.
__device__ __forceinline__ u32 cut_off(float v) { return __float_as_uint(v * (1.f + 1.f / 3072.f)); }
// A factor as tensor cores take it, and what that leaves of it where there is a second term.
__device__ __forceinline__ void split(float v, u32& high, u32& low) {
  if (TERMS == 1) {
    high = cut_off(v);
    return;
  }
  high = rounded(v);
  low = rest(v, high);
}
// d += a * b: a 16 x 8, b 8 x 8.
__device__ __forceinline__ void multiply(float (&d)[4], const u32 (&a)[4], const u32 (&b)[2]) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
// A lane's places along k.
#define LANE_STEPS 2
__device__ __forceinline__ int lane_step(int q) { return threadIdx.x % 4 + q * 4; }
// The share of a lane in a 16 x 8 matrix on the left, at(which of its two rows, which of its places
// along k), and in an 8 x 8 matrix on the right, at(place).
template <class F>
__device__ __forceinline__ void load_left(u32 (&a)[TERMS][4], F at) {
#pragma unroll
  for (int i = 0; i < 4; i++) {
    split(at(i % 2, i / 2), a[0][i], a[TERMS - 1][i]);
  }
}
template <class F>
__device__ __forceinline__ void load_right(u32 (&b)[TERMS][2], F at) {
#pragma unroll
  for (int i = 0; i < 2; i++) {
    split(at(i), b[0][i], b[TERMS - 1][i]);
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
    split(__uint_as_float(v[i]), a[0][i], a[TERMS - 1][i]);
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
#define LANE_STEPS 4
__device__ __forceinline__ int lane_step(int q) { return threadIdx.x % 4 * 2 + q % 2 + q / 2 * 8; }
template <class F>
__device__ __forceinline__ void load_left(u32 (&a)[TERMS][4], F at) {
#pragma unroll
  for (int i = 0; i < 4; i++) a[0][i] = rounded(at(i % 2, i / 2 * 2), at(i % 2, i / 2 * 2 + 1));
}
template <class F>
__device__ __forceinline__ void load_right(u32 (&b)[TERMS][2], F at) {
#pragma unroll
  for (int i = 0; i < 2; i++) b[0][i] = rounded(at(2 * i), at(2 * i + 1));
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

// d += a * b, all terms that count; small ones first. Tensor cores cut sums off instead of rounding
// them, so for f32 the last addition is not theirs.
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

// Copies one value likewise; the thread that issued the copy may read it after
// `wait_for_all_copies`, others after a barrier.
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

// A lane's share of a product: pairs of neighbours in PIECES adjacent pieces of 16 x 16 entries.
#define PAIRS (4 * PIECES)
#define ABREAST (D / 16 / PIECES)  // warps that share 16 rows

// The place of a lane's i-th pair in a tile of D columns.
__device__ __forceinline__ int pair_row(int i) { return threadIdx.x / 32 / ABREAST * 16 + threadIdx.x % 32 / 4 + i % 2 * 8; }
__device__ __forceinline__ int pair_column(int i) { return threadIdx.x / 32 % ABREAST * PIECES * 16 + i / 2 * 8 + threadIdx.x % 4 * 2; }

struct Sums {
  float v[2 * PIECES][4];

  __device__ __forceinline__ float2 pair(int i) const { return make_float2(v[i / 2][i % 2 * 2], v[i / 2][i % 2 * 2 + 1]); }
};

// A matrix [K, N] in device memory: chunks of CHUNK steps along k and D columns lie one after the
// other, D columns after D columns; those of the last columns may be narrower, and those of the
// last steps shorter.
template <int K, int N>
struct Chunks {
  static constexpr int DEEP = (K / STEP + CHUNK - 1) / CHUNK, COUNT = (N + D - 1) / D * DEEP;
  const uint4* next;  // what this thread copies of the next chunk
  int number;

  __device__ Chunks(const float* matrix) : next((const uint4*)matrix + threadIdx.x), number(0) {}

  __device__ __forceinline__ void send(uint4* stage) {
    const int width = N % D == 0 ? D : min(D, N - number / DEEP * D);
    const int words = 2 * width * (K / STEP % CHUNK == 0 ? CHUNK : min(CHUNK, K / STEP - number % DEEP * CHUNK));
#pragma unroll
    for (int term = 0; term < TERMS; term++)
#pragma unroll
      for (int base = 0; base < CHUNK * STEP_WORDS; base += THREADS)
        // What rounding left lies a whole array of parameters further.
        if (base + (int)threadIdx.x < words) copy_later(stage + term * CHUNK * STEP_WORDS + base + threadIdx.x, (const uint4*)((const float*)(next + base) + term * (size_t)PARAMETERS));
    next += words;
    number++;
  }
};

// Weights on their way through the ring, which begins shared memory: a matrix, or two, of which the
// second takes what the first gives: D columns of the first, then the D rows of the second that
// they are for, and so on.
template <int K1, int N1, int K2 = 0, int N2 = 0>
struct Weights {
  Chunks<K1, N1> first;
  Chunks<K2, N2> second;
  int most;            // chunks of a single matrix
  int filled, taken;   // stages

  __device__ Weights(const float* one, const float* two = nullptr, int most = Chunks<K1, N1>::COUNT) : first(one), second(two), most(most), filled(0), taken(0) {
#pragma unroll
    for (int i = 0; i < STAGES - 1; i++) send();
  }

  __device__ __forceinline__ void send() {
    uint4* stage = (uint4*)shared + filled * STAGE_WORDS;
    if (K2 == 0) {
      if (first.number < most) first.send(stage);
    } else {
      constexpr int TURN = D / STEP / CHUNK;
      static_assert(K2 == 0 || (K1 == D && N2 == D && D / STEP % CHUNK == 0), "matrices take turns");
      // Of the second as many as of the first, but for the last rows, which may be fewer.
      if (first.number < Chunks<K1, N1>::COUNT && first.number < second.number / TURN * TURN + TURN) first.send(stage);
      else if (second.number < Chunks<K2, N2>::COUNT) second.send(stage);
    }
    filled = filled + 1 == STAGES ? 0 : filled + 1;
    end_copies();
  }

  // Adds the product of `steps` steps of `a`, rows `pitch` apart, and the next chunks, which are
  // `width` columns wide. `a` may have been written just before; `begin` is called when it is
  // there, and everybody done with what came before.
  template <class B>
  __device__ __forceinline__ void add(const float* a, int pitch, int steps, int width, Sums& sums, B begin) {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, row = warp / ABREAST * 16, own = warp % ABREAST * PIECES;
#pragma unroll 1
    for (int k = 0; k < steps; k += CHUNK) {
      wait_for_copies<STAGES - 2>();
      // Also: everybody is done with the chunk before, whose stage is the next to be filled.
      __syncthreads();
      if (k == 0) begin();
      send();
      const uint4* stage = (const uint4*)shared + taken * STAGE_WORDS + own * 32 + lane;
      taken = taken + 1 == STAGES ? 0 : taken + 1;
      if (own * 16 >= width) continue;
#pragma unroll
      for (int i = 0; i < CHUNK; i++) {
        if (k + i >= steps) break;
        u32 x[TERMS][4];
        load_tile(x, a + row * pitch + (k + i) * STEP, pitch);
#pragma unroll
        for (int piece = 0; piece < PIECES; piece++) {
          // Those past the width are something, and go nowhere.
          u32 y[2][TERMS][2];
#pragma unroll
          for (int term = 0; term < TERMS; term++) {
            const uint4 both = stage[term * CHUNK * STEP_WORDS + i * 2 * width + piece * 32];
            y[0][term][0] = both.x;
            y[0][term][1] = both.y;
            y[1][term][0] = both.z;
            y[1][term][1] = both.w;
          }
#pragma unroll
          for (int n = 0; n < 2; n++) multiply_all(sums.v[2 * piece + n], x, y[n]);
        }
      }
    }
  }

  // The product with the matrix on the right; put(row, column, two neighbouring entries, what
  // get(row, column) brought meanwhile) takes the result.
  template <int K, int N, class G, class F>
  __device__ void product(const float* a, G get, F put) {
#pragma unroll 1
    for (int from = 0; from < N; from += D) {
      const int width = N % D == 0 ? D : min(D, N - from);
      float2 met[PAIRS] = {};
#pragma unroll
      for (int i = 0; i < PAIRS; i++)
        if (N % D == 0 || pair_column(i) < width) met[i] = get(pair_row(i), from + pair_column(i));
      Sums sums = {};
      add(a, PADDED(K), K / STEP, width, sums, [] {});
#pragma unroll
      for (int i = 0; i < PAIRS; i++)
        if (N % D == 0 || pair_column(i) < width) put(pair_row(i), from + pair_column(i), sums.pair(i), met[i]);
    }
  }
};

// For products that need nothing else.
__device__ __forceinline__ auto nothing_else() {
  return [](int, int) { return make_float2(0.f, 0.f); };
}
