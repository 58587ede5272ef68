/* hasten's own kernels, for built-in ones that are many times slower than plain C. */

#include "kernels.h"

#define ENTRY(NAME) {"hasten." #NAME, NULL, hasten_##NAME##_shapes, hasten_##NAME##_run, NULL}

const HastenKernel hasten_kernel_table[] = {
    ENTRY(strided_slice), ENTRY(mirror_pad), ENTRY(cumsum),     ENTRY(arg_max), ENTRY(gather),
    ENTRY(floor_div),     ENTRY(floor_mod),  ENTRY(layer_norm), {NULL, NULL, NULL, NULL, NULL},
};
