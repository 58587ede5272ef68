/* The functions of hasten's own kernels. */

#ifndef HASTEN_KERNELS_H
#define HASTEN_KERNELS_H

#include "hasten_kernel.h"

#define HASTEN_KERNEL_FUNCTIONS(NAME)         \
  int hasten_##NAME##_shapes(HastenCall* call); \
  int hasten_##NAME##_run(HastenCall* call)

HASTEN_KERNEL_FUNCTIONS(strided_slice);
HASTEN_KERNEL_FUNCTIONS(mirror_pad);
HASTEN_KERNEL_FUNCTIONS(cumsum);
HASTEN_KERNEL_FUNCTIONS(arg_max);
HASTEN_KERNEL_FUNCTIONS(gather);
HASTEN_KERNEL_FUNCTIONS(floor_div);
HASTEN_KERNEL_FUNCTIONS(floor_mod);
HASTEN_KERNEL_FUNCTIONS(layer_norm);

/* The axis that a constant second input names, counted from the front; 0 and no axis if there is none. */
static inline int hasten_named_axis(const HastenCall* call, int* axis) {
  const HastenTensor* given = &call->inputs[1];
  if (call->input_count != 2 || !hasten_is_constant(given, HASTEN_INT32, HASTEN_INT64, 1)) return 0;
  const int64_t named = given->type == HASTEN_INT64 ? *(const int64_t*)given->data : *(const int32_t*)given->data;
  const int64_t found = named < 0 ? named + call->inputs[0].rank : named;
  *axis = (int)found;
  return found >= 0 && found < call->inputs[0].rank;
}

#endif
