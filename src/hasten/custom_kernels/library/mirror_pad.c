/* MIRROR_PAD with constant paddings; attributes: what is left out at the border (1 for REFLECT, 0 for SYMMETRIC).
   Bit-equal: it only copies. Each pad is copied from the part of the output that is there already. */

#include "kernels.h"
#include "movement.h"

typedef struct {
  int rank;
  int skipped;
  int64_t before[HASTEN_MAX_RANK], after[HASTEN_MAX_RANK];
} Padding;

static const char* read_padding(const HastenCall* call, Padding* padding) {
  const HastenTensor *input = &call->inputs[0], *amounts = &call->inputs[1];
  int32_t skipped;
  if (call->input_count != 2 || call->attributes_size != sizeof skipped ||
      !hasten_is_constant(amounts, HASTEN_INT32, HASTEN_INT64, 2 * (size_t)input->rank))
    return "the paddings must be a constant with two numbers for each dimension";
  memcpy(&skipped, call->attributes, sizeof skipped);
  if (skipped != 0 && skipped != 1) return "its mode is unknown";
  padding->rank = input->rank;
  padding->skipped = skipped;
  for (int axis = 0; axis < input->rank; ++axis) {
    const int is_wide = amounts->type == HASTEN_INT64;
    for (int side = 0; side < 2; ++side) {
      const int at = 2 * axis + side;
      const int64_t amount = is_wide ? ((const int64_t*)amounts->data)[at] : ((const int32_t*)amounts->data)[at];
      if (amount < 0 || (amount > 0 && amount > (int64_t)input->shape[axis] - skipped))
        return "a pad is wider than what it mirrors";
      (side == 0 ? padding->before : padding->after)[axis] = amount;
    }
  }
  return NULL;
}

int hasten_mirror_pad_shapes(HastenCall* call) {
  Padding padding;
  const char* trouble = read_padding(call, &padding);
  if (trouble != NULL) return hasten_refuse(call, trouble);
  HastenTensor* output = &call->outputs[0];
  output->rank = padding.rank;
  for (int axis = 0; axis < padding.rank; ++axis)
    output->shape[axis] = (int32_t)(call->inputs[0].shape[axis] + padding.before[axis] + padding.after[axis]);
  return 0;
}

typedef struct {
  const Padding* padding;
  const int32_t* shape; /* of the input */
  size_t element;
  size_t input_steps[HASTEN_MAX_RANK], output_steps[HASTEN_MAX_RANK]; /* bytes from one index to the next */
} Walk;

/* Copy `count` slices of `step` bytes to `target` in reverse; `last` is the first that is copied. */
static void mirror(unsigned char* target, const unsigned char* last, size_t count, size_t step, size_t element) {
  if (step == element && element <= 8 && (element & (element - 1)) == 0) {
    hasten_copy_elements(target, last, count, -1, element);
    return;
  }
  for (size_t i = 0; i < count; ++i) memcpy(target + i * step, last - i * step, step);
}

static void fill(const Walk* walk, int axis, const unsigned char* source, unsigned char* target) {
  const Padding* padding = walk->padding;
  const size_t size = (size_t)walk->shape[axis], step = walk->output_steps[axis];
  const size_t before = (size_t)padding->before[axis], after = (size_t)padding->after[axis];
  unsigned char* middle = target + before * step;
  if (walk->input_steps[axis] == step) { /* no pads further in: the middle is one piece */
    memcpy(middle, source, size * step);
  } else {
    for (size_t i = 0; i < size; ++i) fill(walk, axis + 1, source + i * walk->input_steps[axis], middle + i * step);
  }
  const size_t skipped = (size_t)padding->skipped;
  if (before > 0) mirror(target, middle + (before - 1 + skipped) * step, before, step, walk->element);
  if (after > 0) mirror(middle + size * step, middle + (size - 1 - skipped) * step, after, step, walk->element);
}

int hasten_mirror_pad_run(HastenCall* call) {
  const HastenTensor *input = &call->inputs[0], *output = &call->outputs[0];
  Padding padding;
  const char* trouble = read_padding(call, &padding);
  if (trouble != NULL) return hasten_refuse(call, trouble);
  Walk walk = {&padding, input->shape, hasten_element_size(input->type), {0}, {0}};
  if (walk.element == 0 || output->type != input->type)
    return hasten_refuse(call, "it takes and gives one element type of a fixed size");
  if (hasten_elements(input, 0, input->rank) == 0) return 0;
  size_t input_step = walk.element, output_step = walk.element;
  for (int axis = input->rank - 1; axis >= 0; --axis) {
    walk.input_steps[axis] = input_step;
    walk.output_steps[axis] = output_step;
    input_step *= (size_t)input->shape[axis];
    output_step *= (size_t)output->shape[axis];
  }
  if (input->rank == 0) memcpy(output->data, input->data, walk.element);
  else fill(&walk, 0, input->data, output->data);
  return 0;
}
