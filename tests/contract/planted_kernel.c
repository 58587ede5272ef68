/* A kernel that doubles its input, adds its constant if it has one, and strikes where its attribute says. */

#include "hasten_kernel.h"

#include <stdlib.h>
#include <string.h>

enum { NONE, FAIL_IN_INIT, FAIL_IN_SHAPES, FAIL_IN_RUN, CRASH_IN_RUN };

static int fault_of(const HastenCall* call) {
  int32_t fault = NONE;
  if (call->attributes_size >= sizeof fault) memcpy(&fault, call->attributes, sizeof fault);
  return fault;
}

static int init(HastenCall* call) {
  call->state = malloc(1);
  return fault_of(call) == FAIL_IN_INIT ? hasten_refuse(call, "planted in init") : 0;
}

static int shapes(HastenCall* call) {
  if (call->state == NULL) return hasten_refuse(call, "init was not called");
  if (fault_of(call) == FAIL_IN_SHAPES) return hasten_refuse(call, "planted in shapes");
  hasten_same_shape(&call->outputs[0], &call->inputs[0]);
  return 0;
}

static int run(HastenCall* call) {
  const HastenTensor* input = &call->inputs[0];
  const float *x = input->data, *added = call->input_count > 1 ? call->inputs[1].data : NULL;
  float* y = call->outputs[0].data;
  if (fault_of(call) == FAIL_IN_RUN) return hasten_refuse(call, "planted in run");
  if (fault_of(call) == CRASH_IN_RUN) abort();
  if ((uintptr_t)added % 64 != 0) return hasten_refuse(call, "the constant is not aligned");
  for (size_t i = 0; i < hasten_elements(input, 0, input->rank); ++i) y[i] = 2 * x[i] + (added != NULL ? added[i] : 0);
  return 0;
}

static void destroy(void* state) { free(state); }

const HastenKernel hasten_kernel_table[] = {
    {"planted", init, shapes, run, destroy},
    {NULL, NULL, NULL, NULL, NULL},
};
