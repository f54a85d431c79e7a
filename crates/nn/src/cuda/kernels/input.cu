// The input: embeddings and linear layers of what a row brings along, added up; and their
// gradients.

// What the rows of a stream bring along, in the data set's order, and the parameters that embed it.
struct Input {
  const u32* categorical;  // [rows, columns]
  const float* linear;     // [rows, linear_width]; null: a column of ones
  const int* hot_start;    // [rows + 1]
  const u32* hot;
  const float* laplacian;  // [rows, laplacian_width]
  const float* walk;       // [rows, walk_width]
  const u32* roles;        // [rows]
  const float* signs;      // of Laplacian coordinates: [batches, laplacian_width], or per listed graph
  const float* embedding[8];
  Linear of_linear, of_laplacian, of_walk;
  const float* words;
  const float* role_table;
  const float* bias;
  int columns, linear_width, laplacian_width, walk_width, role_count, signs_per_graph, zero_features;
};

__device__ __forceinline__ float sign_of(const Input& in, const Control* control, int graph, int k) {
  if (!control->signs) return 1.f;
  const int at = in.signs_per_graph ? control->current * control->batch_size + graph : control->current;
  return in.signs[(size_t)at * in.laplacian_width + k];
}

// A thread per channel.
extern "C" __global__ void embed(Batch b, Input in, int edges, float* x, u32 threshold, float scale) {
  const Control* control = b.control;
  const int rows = edges ? control->edges : control->nodes;
  const u64 key = dropout_key(control, 0);
  for (int r = blockIdx.x * blockDim.y + threadIdx.y; r < rows; r += gridDim.x * blockDim.y) {
    const int row = edges ? b.edge_row[r] : b.node_row[r];
    const int graph = edges ? 0 : b.node_graph[r];
    for (int p = threadIdx.x; p < D; p += blockDim.x) {
      float sum = in.bias ? in.bias[p] : 0.f;
      for (int c = 0; c < in.columns; c++) {
        const u32 category = in.zero_features ? 0 : in.categorical[(size_t)row * in.columns + c];
        sum += in.embedding[c][category * D + p];
      }
      if (in.words && !in.zero_features)
        for (int at = in.hot_start[row]; at < in.hot_start[row + 1]; at++) sum += in.words[in.hot[at] * D + p];
      if (in.linear_width > 0) {
        float inner = in.of_linear.bias[p];
        for (int k = 0; k < in.linear_width; k++) {
          const float v = !in.linear ? 1.f : in.zero_features ? 0.f : in.linear[(size_t)row * in.linear_width + k];
          inner += v * in.of_linear.weight[k * D + p];
        }
        sum += inner;
      }
      if (threshold > 0 && control->train && !edges) sum *= kept_stream(key, r, p, threshold, scale);
      if (in.role_table) sum += in.role_table[min(in.roles[row], (u32)in.role_count - 1) * D + p];
      if (in.laplacian_width > 0) {
        float inner = in.of_laplacian.bias[p];
        for (int k = 0; k < in.laplacian_width; k++)
          inner += in.laplacian[(size_t)row * in.laplacian_width + k] * sign_of(in, control, graph, k) * in.of_laplacian.weight[k * D + p];
        sum += inner;
      }
      if (in.walk_width > 0) {
        float inner = in.of_walk.bias[p];
        for (int k = 0; k < in.walk_width; k++) inner += in.walk[(size_t)row * in.walk_width + k] * in.of_walk.weight[k * D + p];
        sum += inner;
      }
      x[(size_t)r * D + p] = sum;
    }
  }
}

// What a table or linear layer of the input gets back.
struct InputGradient {
  int kind;        // 0 categorical column, 1 words, 2 roles, 3 linear, 4 Laplacian, 5 walk, 6 bias alone
  int column;      // of a categorical one
  int entries;     // rows of the table or matrix
  float* weight;   // chunk 0; chunks are `stride` apart
  float* bias;     // or null
};

#define INPUT_SLICES 16

// What a table or layer of the input gets back, all of one stream in a launch. Block (entry of all
// of them, chunk, 32 channels): sums over a chunk's rows; threads (channel, slice): slices take
// rows interleaved, and are added in order.
extern "C" __global__ void embed_backward(Batch b, Input in, const InputGradient* list, int edges, const float* g, size_t stride, int chunks, u32 threshold, float scale) {
  int entry = blockIdx.x, number = 0;
  while (entry >= list[number].entries) entry -= list[number++].entries;
  const InputGradient of = list[number];
  const Control* control = b.control;
  const int rows = edges ? control->edges : control->nodes, chunk = blockIdx.y, slice = threadIdx.y, p = blockIdx.z * 32 + threadIdx.x;
  const int per = (rows + chunks - 1) / chunks, from = chunk * per, to = min(rows, from + per);
  const u64 key = dropout_key(control, 0);
  const bool dropped = threshold > 0 && !edges && of.kind != 2 && of.kind != 4 && of.kind != 5, with_bias = entry == 0 && of.bias;
  __shared__ float factors[32 * INPUT_SLICES], sums[2][INPUT_SLICES][32];
  float sum = 0.f, bias = 0.f;
  for (int base = from; base < to; base += 32 * INPUT_SLICES) {
    // How often, or how much, each row has of this entry.
    const int own = base + slice * 32 + threadIdx.x;
    float factor = 0.f;
    if (own < to) {
      const int row = edges ? b.edge_row[own] : b.node_row[own];
      factor = 1.f;
      if (of.kind == 0) factor = (in.zero_features ? 0 : in.categorical[(size_t)row * in.columns + of.column]) == entry;
      if (of.kind == 1) {
        factor = 0.f;
        if (!in.zero_features)
          for (int at = in.hot_start[row]; at < in.hot_start[row + 1]; at++) factor += in.hot[at] == entry;
      }
      if (of.kind == 2) factor = min(in.roles[row], (u32)in.role_count - 1) == entry;
      if (of.kind == 3) factor = !in.linear ? 1.f : in.zero_features ? 0.f : in.linear[(size_t)row * in.linear_width + entry];
      if (of.kind == 4) factor = in.laplacian[(size_t)row * in.laplacian_width + entry] * sign_of(in, control, b.node_graph[own], entry);
      if (of.kind == 5) factor = in.walk[(size_t)row * in.walk_width + entry];
    }
    __syncthreads();
    factors[slice * 32 + threadIdx.x] = factor;
    __syncthreads();
    // Of most entries most rows have nothing: eight at a time that have none are passed over.
    const int looked = threadIdx.x * INPUT_SLICES + slice;
    const u32 wanted = __ballot_sync(0xffffffff, base + looked < to && (factors[looked] != 0.f || with_bias));
#pragma unroll 1
    for (int first = 0; first < 32; first += 8)
      if (wanted >> first & 0xff)
#pragma unroll
        for (int i = first; i < first + 8; i++) {
          const int at = i * INPUT_SLICES + slice, r = base + at;
          if (wanted >> i & 1 && p < D) {
            float v = g[(size_t)r * D + p];
            if (dropped) v *= kept_stream(key, r, p, threshold, scale);
            sum += factors[at] * v;
            bias += v;
          }
        }
  }
  sums[0][slice][threadIdx.x] = sum;
  sums[1][slice][threadIdx.x] = bias;
  __syncthreads();
  if (slice > 0 || p >= D) return;
  for (int s = 1; s < INPUT_SLICES; s++) {
    sum += sums[0][s][threadIdx.x];
    bias += sums[1][s][threadIdx.x];
  }
  if (of.kind != 6) of.weight[chunk * stride + (size_t)entry * D + p] = sum;
  if (with_bias) of.bias[chunk * stride + p] = bias;
}
