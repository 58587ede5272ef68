/* GATHER along the last axis: indices of 16, 32 or 64 bits, constant or not. An index out of range is a failure, as in
   the builtin. Bit-equal: it only copies. */

#include "kernels.h"

#include <string.h>

int hasten_gather_shapes(HastenCall* call) {
  const HastenTensor *input = &call->inputs[0], *indices = &call->inputs[1];
  HastenTensor* output = &call->outputs[0];
  if (call->input_count != 2 || input->rank < 1) return hasten_refuse(call, "it takes values and indices");
  if (input->rank + indices->rank - 1 > HASTEN_MAX_RANK)
    return hasten_refuse(call, "the output has more than 8 dimensions");
  output->rank = 0;
  for (int i = 0; i < input->rank - 1; ++i) output->shape[output->rank++] = input->shape[i];
  for (int i = 0; i < indices->rank; ++i) output->shape[output->rank++] = indices->shape[i];
  return 0;
}

/* Tiles of four rows and four indices: an index is read once for four rows, and four elements are written as one. */
enum { TILE = 4 };

#define PICK(T)                                                                                                \
  do {                                                                                                         \
    const T* restrict from = input->data;                                                                      \
    T* restrict to = call->outputs[0].data;                                                                    \
    size_t row = 0;                                                                                            \
    for (; row + TILE <= rows; row += TILE, from += TILE * depth, to += TILE * count) {                        \
      size_t k = 0;                                                                                            \
      for (; k + TILE <= count; k += TILE) {                                                                   \
        const size_t at[TILE] = {(size_t)where[k], (size_t)where[k + 1], (size_t)where[k + 2], (size_t)where[k + 3]}; \
        for (size_t j = 0; j < TILE; ++j) {                                                                    \
          const T* values = from + j * depth;                                                                  \
          const T picked[TILE] = {values[at[0]], values[at[1]], values[at[2]], values[at[3]]};                 \
          memcpy(to + j * count + k, picked, sizeof picked);                                                   \
        }                                                                                                      \
      }                                                                                                        \
      for (; k < count; ++k)                                                                                   \
        for (size_t j = 0; j < TILE; ++j) to[j * count + k] = from[j * depth + (size_t)where[k]];              \
    }                                                                                                          \
    for (; row < rows; ++row, from += depth, to += count)                                                      \
      for (size_t k = 0; k < count; ++k) to[k] = from[where[k]];                                               \
    return 0;                                                                                                  \
  } while (0)

/* Each index type has a function of its own: turning indices into another type would need memory. */
#define GATHER(NAME, INDEX)                                                                                    \
  static int gather_##NAME(HastenCall* call) {                                                                 \
    const HastenTensor *input = &call->inputs[0], *indices = &call->inputs[1];                                 \
    const INDEX* restrict where = indices->data;                                                               \
    const size_t rows = hasten_elements(input, 0, input->rank - 1), depth = (size_t)input->shape[input->rank - 1]; \
    const size_t count = hasten_elements(indices, 0, indices->rank);                                           \
    for (size_t k = 0; k < count; ++k)                                                                         \
      if (where[k] < 0 || (uint64_t)where[k] >= depth) return hasten_refuse(call, "an index is out of range"); \
    switch (hasten_element_size(input->type)) {                                                                \
      case 1: PICK(uint8_t);                                                                                   \
      case 2: PICK(uint16_t);                                                                                  \
      case 4: PICK(uint32_t);                                                                                  \
      case 8: PICK(uint64_t);                                                                                  \
      default: return hasten_refuse(call, "it takes element types of a fixed size");                           \
    }                                                                                                          \
  }

GATHER(int16, int16_t)
GATHER(int32, int32_t)
GATHER(int64, int64_t)

int hasten_gather_run(HastenCall* call) {
  if (call->outputs[0].type != call->inputs[0].type)
    return hasten_refuse(call, "it gives the element type that it takes");
  switch (call->inputs[1].type) {
    case HASTEN_INT16: return gather_int16(call);
    case HASTEN_INT32: return gather_int32(call);
    case HASTEN_INT64: return gather_int64(call);
    default: return hasten_refuse(call, "indices must be int16, int32 or int64");
  }
}
