/* CUMSUM with a constant axis: float32, int32 and int64; attributes: exclusive, reverse. Sums are made in the builtin's
   order, from 0 on, so that outputs are bit-equal; what lies side by side is summed in one vector. */

#include "kernels.h"

#include <string.h>

typedef struct {
  int32_t exclusive, reverse;
} Attributes;

static int axis_of(const HastenCall* call, int* axis) {
  return call->attributes_size == sizeof(Attributes) && hasten_named_axis(call, axis);
}

int hasten_cumsum_shapes(HastenCall* call) {
  int axis;
  if (!axis_of(call, &axis)) return hasten_refuse(call, "the axis must be a constant within the input's dimensions");
  hasten_same_shape(&call->outputs[0], &call->inputs[0]);
  return 0;
}

/* `depth` rows of `inner` elements, in the order in which they are summed. Unsigned integers wrap as the builtin's do. */
#define SUM(T)                                                                                      \
  static void sum_##T(const T* in, T* out, size_t depth, size_t inner, ptrdiff_t step, int exclusive) { \
    for (size_t i = 0; i < inner; ++i) out[i] = exclusive ? (T)0 : (T)0 + in[i];                    \
    for (size_t row = 1; row < depth; ++row) {                                                      \
      const T* restrict before = out;                                                               \
      const T* restrict value = exclusive ? in : in + step;                                         \
      T* restrict sum = out + step;                                                                 \
      for (size_t i = 0; i < inner; ++i) sum[i] = before[i] + value[i];                             \
      in += step;                                                                                   \
      out += step;                                                                                  \
    }                                                                                               \
  }

SUM(float)
SUM(uint32_t)
SUM(uint64_t)

int hasten_cumsum_run(HastenCall* call) {
  const HastenTensor* input = &call->inputs[0];
  Attributes attributes;
  int axis;
  if (!axis_of(call, &axis)) return hasten_refuse(call, "the axis must be a constant within the input's dimensions");
  memcpy(&attributes, call->attributes, sizeof attributes);
  const size_t outer = hasten_elements(input, 0, axis), depth = (size_t)input->shape[axis];
  const size_t inner = hasten_elements(input, axis + 1, input->rank), size = hasten_element_size(input->type);
  if (call->outputs[0].type != input->type) return hasten_refuse(call, "it gives the element type that it takes");
  if (outer * depth * inner == 0) return 0;
  const ptrdiff_t step = attributes.reverse ? -(ptrdiff_t)inner : (ptrdiff_t)inner;
  for (size_t i = 0; i < outer; ++i) {
    const size_t first = (i * depth + (attributes.reverse ? depth - 1 : 0)) * inner * size;
    const void* in = (const char*)input->data + first;
    void* out = (char*)call->outputs[0].data + first;
    switch (input->type) {
      case HASTEN_FLOAT32: sum_float(in, out, depth, inner, step, attributes.exclusive); break;
      case HASTEN_INT32: sum_uint32_t(in, out, depth, inner, step, attributes.exclusive); break;
      case HASTEN_INT64: sum_uint64_t(in, out, depth, inner, step, attributes.exclusive); break;
      default: return hasten_refuse(call, "it takes float32, int32 and int64");
    }
  }
  return 0;
}
