// What all kernels share. Compiled for one network: D, HEADS and the rest are given by the
// compiler's options, so loops over them unroll.
//
// Rows are nodes, edges or graphs of a batch. Channels lie as on the CPU (padded, interleaved by
// head: place = c * HEADS + head). True counts are read from device memory, so captured launches
// serve every batch that they are large enough for. No sum depends on the order of blocks: partial
// sums lie in memory by their number, and the kernels that need them add them in that order.

typedef unsigned int u32;
typedef unsigned long long u64;

#define THREADS (ROWS * D / (8 * PIECES))  // of a block that works on rows
#define PER_LANE ((D + 31) / 32)
#define EPSILON 1e-5f
#define MOMENTUM 0.1f

// State of a run on the device; the CPU reads it once per epoch.
struct Control {
  int next;         // batch that the next step takes
  int current;      // batch of this step
  int batch_size;   // graphs per batch
  int listed;       // graphs in the epoch's order
  int graphs, nodes, edges, rows;  // of this batch; rows are those of the head
  int row_base;     // rows of the epoch's earlier batches
  int bad_batch;    // first batch whose loss or gradient was not finite, or -1
  u32 steps;        // optimiser steps so far
  u32 labels;       // labels present in this batch
  u64 dropout_base; // dropout's key of step s is dropout_base + s
  float lr, beta1, beta2, adam_epsilon, weight_decay, clip;
  int decoupled;
  int train;        // whether statistics move and dropout drops
  int signs;        // whether signs of Laplacian coordinates are flipped
  double loss;
  double norm;
  float rate, spread;  // of this step: learning rate over the first moment's correction, and 1 over the second's
};

// Where parameters of a linear layer lie: [in, out], its transpose, and the bias.
struct Linear {
  const float* weight;
  const float* transposed;
  const float* bias;
};

// A normalisation: parameters, statistics of the batch, and what is needed to find them.
struct Site {
  const float* gamma;
  const float* beta;
  float* dgamma;
  float* dbeta;
  float* running;  // mean, variance
  float* stats;    // mean, 1/deviation, scale, shift, and in the backward pass means of dy and of dy * normalised if needed; null where statistics are not those of a batch
  float* moments;  // per tile, then per group of tiles: mean and sum of squared deviations of every channel
  float* sums;     // likewise, backward pass: sums of dy and of dy * normalised
  u32* ticket;     // of the blocks that merge groups
  int tiles;       // the most that there can be
  int group;       // tiles of a group; 1: there are no groups
  int edges;       // whether its rows are edges
};

__device__ __forceinline__ int tiles_of(int rows) { return rows > 0 ? (rows + ROWS - 1) / ROWS : 1; }

// True in exactly one block: the last of `blocks` to come here. What others wrote before is then
// visible.
__device__ bool last_block(u32* ticket, int blocks) {
  __shared__ bool last;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) {
    last = atomicAdd(ticket, 1) == (u32)blocks - 1;
    if (last) *ticket = 0;
  }
  __syncthreads();
  if (last) __threadfence();
  return last;
}

// Sum over the lanes of a warp that hold the same head: place = lane + 32 * j, head = place %
// HEADS.
__device__ __forceinline__ float head_sum(float v) {
#pragma unroll
  for (int step = HEADS; step < 32; step *= 2) v += __shfl_xor_sync(0xffffffff, v, step);
  return v;
}

__device__ __forceinline__ float warp_sum(float v) {
#pragma unroll
  for (int step = 16; step > 0; step /= 2) v += __shfl_xor_sync(0xffffffff, v, step);
  return v;
}

// Dropout's masks, as on the CPU: a word of SplitMix64 decides about four channels of a row.
__device__ __forceinline__ u64 mix(u64 z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

__device__ __forceinline__ float kept(u64 key, int row, int at, int words, u32 threshold, float scale) {
  u64 word = mix(key + ((u64)row * words + at / 4) * 0x9e3779b97f4a7c15ull);
  return ((u32)(word >> (16 * (at % 4))) & 0xffff) < threshold ? 0.f : scale;
}

__device__ __forceinline__ u64 dropout_key(const Control* control, u32 site) { return mix((control->dropout_base + control->steps) ^ mix((u64)site)); }

// Whether a place holds a channel, not padding.
__device__ __forceinline__ bool real_channel(int place) { return place % HEADS < TRUE_HEADS && place / HEADS < WIDTH / TRUE_HEADS; }

// Factor of a stream's channel at `place`; 1 for padding.
__device__ __forceinline__ float kept_stream(u64 key, int row, int place, u32 threshold, float scale) {
  if (!real_channel(place)) return 1.f;
  return kept(key, row, place / HEADS * TRUE_HEADS + place % HEADS, (WIDTH + 3) / 4, threshold, scale);
}
