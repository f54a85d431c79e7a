// Batches are put together on the device: the data set lies there once, a batch is a list of
// graphs.

// The data set. Edges of a graph are sorted by target; positions are relative to the graph.
struct Resident {
  const int* node_start;  // [graphs + 1]
  const int* edge_start;  // [graphs + 1]; of the full graph if the network needs it
  const int* in_start;    // [nodes] first edge into a node
  const int* in_source;   // [edges]
  const int* out_start;   // [nodes] first edge out of a node
  const int* out_edge;    // [edges] position of the edges out of a node
  const int* out_target;  // [edges]
};

// A batch. Nodes and edges are numbered over all its graphs.
struct Batch {
  Control* control;
  const int* order;    // the epoch's graphs
  int* graph_id;       // [graphs]
  int* node_start;     // [graphs + 1]
  int* edge_start;     // [graphs + 1]
  int* node_graph;     // [nodes] graph within the batch
  int* node_row;       // [nodes] row in the data set
  int* edge_row;       // [edges] row in the data set
  int* in_start;       // [nodes + 1], and a few more that are read before it is known how many nodes there are
  int* source;         // [edges]
  int* target;         // [edges]
  int* out_start;      // likewise
  int* out_edge;       // [edges]
  int* out_target;     // [edges]
};

// Sum over the values of the threads before this one, and over all; one block of 1024 threads.
__device__ int before(int value, int& all) {
  __shared__ int sums[32];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  int sum = value;
  for (int step = 1; step < 32; step *= 2) {
    const int other = __shfl_up_sync(0xffffffff, sum, step);
    if (lane >= step) sum += other;
  }
  if (lane == 31) sums[warp] = sum;
  __syncthreads();
  if (warp == 0) {
    int total = sums[lane];
    for (int step = 1; step < 32; step *= 2) {
      const int other = __shfl_up_sync(0xffffffff, total, step);
      if (lane >= step) total += other;
    }
    sums[lane] = total;
  }
  __syncthreads();
  all = sums[31];
  const int result = sum - value + (warp > 0 ? sums[warp - 1] : 0);
  __syncthreads();
  return result;
}

// One block: which graphs, and where they begin.
extern "C" __global__ void begin_batch(Batch b, Resident data, int level, u32* class_counts, int classes) {
  Control* control = b.control;
  const int current = control->next, first = current * control->batch_size;
  const int graphs = max(0, min(control->batch_size, control->listed - first));
  int nodes = 0, edges = 0;
  for (int base = 0; base < graphs; base += 1024) {
    const int g = base + threadIdx.x;
    int n = 0, e = 0, id = 0;
    if (g < graphs) {
      id = b.order[first + g];
      n = data.node_start[id + 1] - data.node_start[id];
      e = data.edge_start[id + 1] - data.edge_start[id];
    }
    int all_n, all_e;
    const int at_n = before(n, all_n), at_e = before(e, all_e);
    if (g < graphs) {
      b.graph_id[g] = id;
      b.node_start[g] = nodes + at_n;
      b.edge_start[g] = edges + at_e;
    }
    nodes += all_n;
    edges += all_e;
  }
  for (int c = threadIdx.x; c < classes; c += 1024) class_counts[c] = 0;
  if (threadIdx.x == 0) {
    b.node_start[graphs] = nodes;
    b.edge_start[graphs] = edges;
    b.in_start[nodes] = edges;
    b.out_start[nodes] = edges;
    control->row_base += control->rows;
    control->current = current;
    control->next = current + 1;
    control->graphs = graphs;
    control->nodes = nodes;
    control->edges = edges;
    control->rows = level == 0 ? graphs : level == 1 ? nodes : edges;
    control->labels = 0;
  }
}

// Blocks (graph, slice): its nodes and edges, renumbered. `full` joins every ordered pair of
// distinct nodes, targets and then sources ascending.
extern "C" __global__ void gather_batch(Batch b, Resident data, int full) {
  const int g = blockIdx.x;
  if (g >= b.control->graphs) return;
  const int id = b.graph_id[g], node0 = b.node_start[g], edge0 = b.edge_start[g];
  const int data_node = data.node_start[id], data_edge = data.edge_start[id];
  const int n = b.node_start[g + 1] - node0, e = b.edge_start[g + 1] - edge0;
  const int first = blockIdx.y * blockDim.x + threadIdx.x, step = gridDim.y * blockDim.x;
  for (int i = first; i < n; i += step) {
    b.node_graph[node0 + i] = g;
    b.node_row[node0 + i] = data_node + i;
    b.in_start[node0 + i] = edge0 + (full ? i * (n - 1) : data.in_start[data_node + i]);
    b.out_start[node0 + i] = edge0 + (full ? i * (n - 1) : data.out_start[data_node + i]);
  }
  if (full) {
    for (int at = first; at < e; at += step) {
      const int i = at / (n - 1), j = at % (n - 1), other = j + (j >= i);
      b.edge_row[edge0 + at] = 0;
      b.source[edge0 + at] = node0 + other;
      b.target[edge0 + at] = node0 + i;
      b.out_target[edge0 + at] = node0 + other;
      b.out_edge[edge0 + at] = edge0 + other * (n - 1) + i - (i > other);
    }
    return;
  }
  for (int i = first / 32; i < n; i += step / 32) {
    const int from = data.in_start[data_node + i], to = i + 1 < n ? data.in_start[data_node + i + 1] : e;
    for (int at = from + threadIdx.x % 32; at < to; at += 32) b.target[edge0 + at] = node0 + i;
  }
  for (int at = first; at < e; at += step) {
    b.edge_row[edge0 + at] = data_edge + at;
    b.source[edge0 + at] = node0 + data.in_source[data_edge + at];
    b.out_target[edge0 + at] = node0 + data.out_target[data_edge + at];
    b.out_edge[edge0 + at] = edge0 + data.out_edge[data_edge + at];
  }
}
