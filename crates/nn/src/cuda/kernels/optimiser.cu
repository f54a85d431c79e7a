#define NOWHERE 0xffffffffu

// Adam and AdamW on the flat array of parameters; see the formulas in cpu/adam.rs.

// Adds the chunks up, in order, and finds the norm of the whole gradient; a loss or norm that is
// not finite is latched with its batch.
extern "C" __global__ void gather_gradients(Batch b, const float* chunks, int count, size_t stride, int size, float* gradient, double* partial, u32* ticket) {
  Control* control = b.control;
  static_assert(PARAMETERS % 4 == 0, "a thread takes four entries");
  const int at = (blockIdx.x * blockDim.x + threadIdx.x) * 4;
  double square = 0.0;
  if (at < size) {
    float4 sum = make_float4(0.f, 0.f, 0.f, 0.f);
#pragma unroll 8
    for (int c = 0; c < count; c++) sum = sum_of(sum, *(const float4*)(chunks + c * stride + at));
    *(float4*)(gradient + at) = sum;
    square = (double)sum.x * sum.x + (double)sum.y * sum.y + (double)sum.z * sum.z + (double)sum.w * sum.w;
  }
  __shared__ double sums[256];
  sums[threadIdx.x] = square;
  __syncthreads();
  for (int step = 128; step > 0; step /= 2) {
    if ((int)threadIdx.x < step) sums[threadIdx.x] += sums[threadIdx.x + step];
    __syncthreads();
  }
  if (threadIdx.x == 0) partial[blockIdx.x] = sums[0];
  if (!last_block(ticket, gridDim.x)) return;
  double sum = 0.0;
  for (int i = threadIdx.x; i < (int)gridDim.x; i += 256) sum += __ldcg(partial + i);
  sums[threadIdx.x] = sum;
  __syncthreads();
  for (int step = 128; step > 0; step /= 2) {
    if ((int)threadIdx.x < step) sums[threadIdx.x] += sums[threadIdx.x + step];
    __syncthreads();
  }
  if (threadIdx.x == 0) {
    control->norm = sqrt(sums[0]);
    if (control->bad_batch < 0 && !(isfinite(control->norm) && isfinite(control->loss))) control->bad_batch = control->current;
    if (control->bad_batch < 0) control->steps += 1;
  }
  __syncthreads();
  if (threadIdx.x == 0) control->rate = (float)(control->lr / (1.0 - pow((double)control->beta1, (double)control->steps)));
  if (threadIdx.x == 32) control->spread = (float)(1.0 / (1.0 - pow((double)control->beta2, (double)control->steps)));
}

// Copies of an entry for products, forward and backward, at given places; the first place is none
// for entries that no packed product reads.
__device__ __forceinline__ void copy_out(float value, int at, void* forward, void* backward, const uint2* places) {
  const uint2 place = places[at];
  if (place.x == NOWHERE) {
    // A matrix of the head, whose products are plain, or no matrix at all.
    ((float*)backward)[place.y] = value;
    return;
  }
#if PRECISION < 2
  const u32 high = rounded(value);
  ((u32*)forward)[place.x] = high;
  ((u32*)backward)[place.y] = high;
  if (TERMS == 2) {
    ((u32*)forward)[PARAMETERS + place.x] = rest(value, high);
    ((u32*)backward)[PARAMETERS + place.y] = rest(value, high);
  }
#else
  ((unsigned short*)forward)[place.x] = (unsigned short)rounded(value, 0.f);
  ((unsigned short*)backward)[place.y] = (unsigned short)rounded(value, 0.f);
#endif
}

// `places`: where an entry's copies lie. Entries in [idle_from, idle_to) are reached by no gradient
// and left alone.
extern "C" __global__ void adam(Batch b, int size, int idle_from, int idle_to, const float* gradient, float* first, float* second, float* values, void* forward, void* backward, const uint2* places) {
  const Control* control = b.control;
  const int at = blockIdx.x * blockDim.x + threadIdx.x;
  if (at >= size || control->bad_batch >= 0 || (at >= idle_from && at < idle_to)) return;
  const float scale = control->clip > 0.f ? fminf(1.f, (float)(control->clip / (control->norm + 1e-6))) : 1.f;
  const float value = values[at], beta1 = control->beta1, beta2 = control->beta2, lr = control->lr;
  const float g = scale * gradient[at] + (control->decoupled ? 0.f : control->weight_decay * value);
  const float m = beta1 * first[at] + (1.f - beta1) * g, v = beta2 * second[at] + (1.f - beta2) * g * g;
  first[at] = m;
  second[at] = v;
  const float kept = control->decoupled ? value * (1.f - lr * control->weight_decay) : value;
  const float next = kept - control->rate * (m / (sqrtf(v * control->spread) + control->adam_epsilon));
  values[at] = next;
  copy_out(next, at, forward, backward, places);
}

// After the parameters were set from outside.
extern "C" __global__ void copy_all(int size, const float* values, void* forward, void* backward, const uint2* places) {
  const int at = blockIdx.x * blockDim.x + threadIdx.x;
  if (at < size) copy_out(values[at], at, forward, backward, places);
}
