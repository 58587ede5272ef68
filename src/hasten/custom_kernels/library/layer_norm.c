/* Layer normalization over the last axis, in place of the chain of operators that converters write: the values, then
   gamma and beta as constants (either may be left out); attributes: epsilon, which of the two are there.
   Sums are made in many lanes, so that results agree with the chain to about 1e-6, not bit for bit. */

#include "kernels.h"

#include <math.h>
#include <string.h>

/* Vectors that compilers split where a processor has narrower ones; four of them, as an addition takes a few cycles. */
enum { WIDTH = 8, CHAINS = 4, LANES = WIDTH * CHAINS };
typedef float Vector __attribute__((vector_size(WIDTH * sizeof(float))));

typedef struct {
  float epsilon;
  int32_t has_gamma, has_beta;
} Attributes;

static const char* look(const HastenCall* call, Attributes* attributes) {
  if (call->attributes_size != sizeof *attributes) return "its attributes are damaged";
  memcpy(attributes, call->attributes, sizeof *attributes);
  const HastenTensor* input = &call->inputs[0];
  if (attributes->has_gamma >> 1 || attributes->has_beta >> 1) return "its attributes are damaged";
  if (call->input_count != 1 + attributes->has_gamma + attributes->has_beta) return "gamma or beta is missing";
  if (input->rank < 1) return "it has no axis to normalize";
  for (int i = 1; i < call->input_count; ++i)
    if (!hasten_is_constant(&call->inputs[i], HASTEN_FLOAT32, HASTEN_FLOAT32, (size_t)input->shape[input->rank - 1]))
      return "gamma and beta must be float32 constants with an element for each channel";
  return NULL;
}

int hasten_layer_norm_shapes(HastenCall* call) {
  Attributes attributes;
  const char* trouble = look(call, &attributes);
  if (trouble != NULL) return hasten_refuse(call, trouble);
  hasten_same_shape(&call->outputs[0], &call->inputs[0]);
  return 0;
}

static float sum_of(const Vector* sums) {
  const Vector all = (sums[0] + sums[1]) + (sums[2] + sums[3]);
  float sum = 0;
  for (int lane = 0; lane < WIDTH; ++lane) sum += all[lane];
  return sum;
}

static float mean_of(const float* restrict x, size_t size) {
  Vector sums[CHAINS] = {{0}};
  float rest = 0;
  size_t i = 0;
  for (; i + LANES <= size; i += LANES)
    for (int chain = 0; chain < CHAINS; ++chain) {
      Vector values;
      memcpy(&values, x + i + chain * WIDTH, sizeof values);
      sums[chain] += values;
    }
  for (; i < size; ++i) rest += x[i];
  return (sum_of(sums) + rest) / (float)size;
}

/* Around the mean, as the chain does it: the mean of squares minus the square of the mean would cancel. */
static float variance_of(const float* restrict x, size_t size, float mean) {
  Vector sums[CHAINS] = {{0}};
  float rest = 0;
  size_t i = 0;
  for (; i + LANES <= size; i += LANES)
    for (int chain = 0; chain < CHAINS; ++chain) {
      Vector difference;
      memcpy(&difference, x + i + chain * WIDTH, sizeof difference);
      difference -= mean;
      sums[chain] += difference * difference;
    }
  for (; i < size; ++i) rest += (x[i] - mean) * (x[i] - mean);
  return (sum_of(sums) + rest) / (float)size;
}

int hasten_layer_norm_run(HastenCall* call) {
  const HastenTensor* input = &call->inputs[0];
  Attributes attributes;
  const char* trouble = look(call, &attributes);
  if (trouble != NULL) return hasten_refuse(call, trouble);
  if (input->type != HASTEN_FLOAT32 || call->outputs[0].type != HASTEN_FLOAT32)
    return hasten_refuse(call, "it takes and gives float32");
  const float* restrict gamma = attributes.has_gamma ? call->inputs[1].data : NULL;
  const float* restrict beta = attributes.has_beta ? call->inputs[1 + attributes.has_gamma].data : NULL;
  const size_t size = (size_t)input->shape[input->rank - 1], rows = hasten_elements(input, 0, input->rank - 1);
  for (size_t row = 0; row < rows; ++row) {
    const float* restrict x = (const float*)input->data + row * size;
    float* restrict y = (float*)call->outputs[0].data + row * size;
    const float mean = mean_of(x, size);
    const float scale = 1.0f / sqrtf(variance_of(x, size, mean) + attributes.epsilon);
    if (gamma != NULL && beta != NULL) {
      for (size_t i = 0; i < size; ++i) y[i] = (x[i] - mean) * scale * gamma[i] + beta[i];
      continue;
    }
    for (size_t i = 0; i < size; ++i) y[i] = (x[i] - mean) * scale;
    if (gamma != NULL) for (size_t i = 0; i < size; ++i) y[i] *= gamma[i];
    if (beta != NULL) for (size_t i = 0; i < size; ++i) y[i] += beta[i];
  }
  return 0;
}
