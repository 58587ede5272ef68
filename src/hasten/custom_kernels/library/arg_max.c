/* ARG_MAX and ARG_MIN along a constant axis; attributes: whether the largest is sought. The first of equal values
   counts, and NaN only where there is nothing else, as in the builtin: bit-equal. Where no elements lie side by side,
   the builtin finds another element beside NaN, depending on its place: that form is refused. */

#include "kernels.h"

#include <string.h>

enum { CHUNK = 256 }; /* of positions that are followed at once: values and indices stay in the first-level cache */

static int axis_of(const HastenCall* call, int* axis) {
  return call->attributes_size == sizeof(int32_t) && hasten_named_axis(call, axis);
}

int hasten_arg_max_shapes(HastenCall* call) {
  const HastenTensor* input = &call->inputs[0];
  HastenTensor* output = &call->outputs[0];
  int axis;
  if (!axis_of(call, &axis)) return hasten_refuse(call, "the axis must be a constant within the input's dimensions");
  if (input->shape[axis] == 0) return hasten_refuse(call, "the axis has no elements");
  if (hasten_elements(input, axis + 1, input->rank) == 1)
    return hasten_refuse(call, "the dimensions behind the axis must have more than one element");
  output->rank = 0;
  for (int i = 0; i < input->rank; ++i)
    if (i != axis) output->shape[output->rank++] = input->shape[i];
  return 0;
}

/* Two loops, so that the comparison is not chosen for each element. A number is better than NaN, and NaN never is. */
#define FOLLOW(NO_BETTER)                                                                   \
  for (size_t row = 1; row < depth; ++row) {                                                \
    const T* restrict values = in + row * inner;                                            \
    for (size_t i = 0; i < count; ++i) {                                                    \
      const int is_better = !(values[i] NO_BETTER best[i]) & (values[i] == values[i]);      \
      best[i] = is_better ? values[i] : best[i];                                            \
      where[i] = is_better ? (int32_t)row : where[i];                                       \
    }                                                                                       \
  }

#define FIND(NAME, TYPE)                                                                                       \
  static void find_##NAME(const void* input, size_t depth, size_t inner, size_t count, int32_t* restrict where, \
                          int largest) {                                                                       \
    typedef TYPE T;                                                                                            \
    const T* in = input;                                                                                       \
    T best[CHUNK];                                                                                             \
    memcpy(best, in, count * sizeof(T));                                                                       \
    memset(where, 0, count * sizeof *where);                                                                   \
    if (largest) FOLLOW(<=) else FOLLOW(>=)                                                                    \
  }

FIND(float, float)
FIND(uint8, uint8_t)
FIND(int8, int8_t)
FIND(int32, int32_t)

int hasten_arg_max_run(HastenCall* call) {
  const HastenTensor* input = &call->inputs[0];
  HastenTensor* output = &call->outputs[0];
  void (*find)(const void*, size_t, size_t, size_t, int32_t*, int) = NULL;
  int axis;
  int32_t largest, where[CHUNK];
  if (!axis_of(call, &axis)) return hasten_refuse(call, "the axis must be a constant within the input's dimensions");
  memcpy(&largest, call->attributes, sizeof largest);
  if (output->type != HASTEN_INT32 && output->type != HASTEN_INT64) return hasten_refuse(call, "it gives int32 or int64");
  switch (input->type) {
    case HASTEN_FLOAT32: find = find_float; break;
    case HASTEN_UINT8: case HASTEN_BOOL: find = find_uint8; break;
    case HASTEN_INT8: find = find_int8; break;
    case HASTEN_INT32: find = find_int32; break;
    default: return hasten_refuse(call, "it takes float32, int8, uint8, int32 and bool");
  }
  const size_t outer = hasten_elements(input, 0, axis), depth = (size_t)input->shape[axis];
  const size_t inner = hasten_elements(input, axis + 1, input->rank), size = hasten_element_size(input->type);
  for (size_t o = 0; o < outer; ++o) {
    for (size_t i = 0; i < inner; i += CHUNK) {
      const size_t count = inner - i < CHUNK ? inner - i : CHUNK, at = o * inner + i;
      find((const char*)input->data + (o * depth * inner + i) * size, depth, inner, count, where, largest);
      if (output->type == HASTEN_INT64)
        for (size_t k = 0; k < count; ++k) ((int64_t*)output->data)[at + k] = where[k];
      else
        memcpy((int32_t*)output->data + at, where, count * sizeof *where);
    }
  }
  return 0;
}
