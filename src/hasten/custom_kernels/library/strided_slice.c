/* STRIDED_SLICE with constant begin, end and strides: inputs as the builtin has them, attributes are its masks. Every
   mask but `offset` is taken; the rules for indices are those of the builtin. Bit-equal: it only copies. */

#include "kernels.h"
#include "movement.h"

typedef struct {
  int32_t begin_mask, end_mask, ellipsis_mask, new_axis_mask, shrink_axis_mask;
} Masks;

/* One axis of the input, as the slice reads it. */
typedef struct {
  int32_t start, step, count; /* count elements from start, step apart */
} Axis;

typedef struct {
  int rank;                          /* of the input */
  Axis axes[HASTEN_MAX_RANK];
  int output_rank;
  int32_t output_shape[HASTEN_MAX_RANK];
} Slice;

static int32_t clamped(int64_t value, int64_t lowest, int64_t highest) {
  return (int32_t)(value < lowest ? lowest : value > highest ? highest : value);
}

/* Where an axis begins and how far it goes: negative indices count from the end, and all are clamped to the axis. */
static Axis axis_range(int32_t size, int32_t begin, int32_t end, int32_t step, int from_first, int to_last, int shrink) {
  Axis axis = {0, step, 0};
  const int64_t low = step > 0 ? 0 : -1, high = step > 0 ? size : (int64_t)size - 1;
  if (size == 0) return axis;
  const int64_t first = from_first ? (step > 0 ? 0 : (int64_t)size - 1) : begin < 0 ? (int64_t)begin + size : begin;
  axis.start = clamped(first, low, high);
  if (shrink) {
    axis.count = axis.start >= 0 && axis.start < size;
    return axis;
  }
  const int64_t last = to_last ? (step > 0 ? size : -1) : clamped(end < 0 ? (int64_t)end + size : end, low, high);
  const int64_t span = last - axis.start;
  if (span != 0 && (span < 0) == (step < 0)) axis.count = (int32_t)((span + step - (step > 0 ? 1 : -1)) / step);
  return axis;
}

/* Expand the ellipsis, and work out each axis. Answers why it cannot, or NULL. */
static const char* work_out(const HastenCall* call, Slice* slice) {
  const HastenTensor* input = &call->inputs[0];
  Masks masks;
  if (call->input_count != 4 || call->attributes_size != sizeof masks) return "it takes 4 inputs and 5 masks";
  const int entries = call->inputs[1].rank == 1 ? call->inputs[1].shape[0] : 0;
  for (int i = 1; i < 4; ++i)
    if (entries < 1 || entries > 31 || !hasten_is_constant(&call->inputs[i], HASTEN_INT32, HASTEN_INT32, (size_t)entries))
      return "begin, end and strides must be int32 constants of one length";
  const int32_t *begin = call->inputs[1].data, *end = call->inputs[2].data, *strides = call->inputs[3].data;
  memcpy(&masks, call->attributes, sizeof masks);
  int added = 0, ellipses = 0;
  for (int i = 0; i < entries; ++i) {
    if (masks.ellipsis_mask >> i & 1) ++ellipses;
    else if (masks.new_axis_mask >> i & 1) ++added;
  }
  const int hidden = input->rank - (entries - added - ellipses); /* axes that the entries do not name */
  if (ellipses > 1) return "it has more than one ellipsis";
  if (hidden < 0 || input->rank + added > HASTEN_MAX_RANK) return "the slice has more dimensions than the input";
  slice->rank = input->rank;
  slice->output_rank = 0;
  int axis = 0;
  for (int i = 0; i < entries; ++i) {
    if (masks.ellipsis_mask >> i & 1) {
      for (int j = 0; j < hidden; ++j, ++axis) {
        slice->axes[axis] = (Axis){0, 1, input->shape[axis]};
        slice->output_shape[slice->output_rank++] = input->shape[axis];
      }
    } else if (masks.new_axis_mask >> i & 1) {
      slice->output_shape[slice->output_rank++] = 1;
    } else {
      if (strides[i] == 0) return "a stride is 0";
      const int shrink = masks.shrink_axis_mask >> i & 1;
      slice->axes[axis] = axis_range(input->shape[axis], begin[i], end[i], strides[i], masks.begin_mask >> i & 1,
                                     masks.end_mask >> i & 1, shrink);
      if (!shrink) slice->output_shape[slice->output_rank++] = slice->axes[axis].count;
      ++axis;
    }
  }
  for (; axis < input->rank; ++axis) {
    slice->axes[axis] = (Axis){0, 1, input->shape[axis]};
    slice->output_shape[slice->output_rank++] = input->shape[axis];
  }
  return NULL;
}

int hasten_strided_slice_shapes(HastenCall* call) {
  Slice slice;
  const char* trouble = work_out(call, &slice);
  if (trouble != NULL) return hasten_refuse(call, trouble);
  call->outputs[0].rank = slice.output_rank;
  memcpy(call->outputs[0].shape, slice.output_shape, sizeof(int32_t) * (size_t)slice.output_rank);
  return 0;
}

typedef struct {
  int rank;
  size_t counts[HASTEN_MAX_RANK];
  ptrdiff_t steps[HASTEN_MAX_RANK]; /* in bytes of the input */
} Walk;

/* Copy what the axes from `axis` on select; answers the end of what was written. */
static unsigned char* copy(const Walk* walk, int axis, const unsigned char* source, unsigned char* target, size_t bytes) {
  if (axis == walk->rank - 1) {
    const size_t count = walk->counts[axis];
    const ptrdiff_t step = walk->steps[axis];
    const int is_element = bytes <= 8 && (bytes & (bytes - 1)) == 0 && step % (ptrdiff_t)bytes == 0 &&
                           (uintptr_t)source % bytes == 0 && (uintptr_t)target % bytes == 0;
    if (is_element) hasten_copy_elements(target, source, count, step / (ptrdiff_t)bytes, bytes);
    else hasten_copy_pieces(target, source, count, step, bytes);
    return target + count * bytes;
  }
  for (size_t i = 0; i < walk->counts[axis]; ++i)
    target = copy(walk, axis + 1, source + (ptrdiff_t)i * walk->steps[axis], target, bytes);
  return target;
}

int hasten_strided_slice_run(HastenCall* call) {
  const HastenTensor* input = &call->inputs[0];
  Slice slice;
  const char* trouble = work_out(call, &slice);
  if (trouble != NULL) return hasten_refuse(call, trouble);
  size_t bytes = hasten_element_size(input->type), size = bytes;
  if (bytes == 0 || call->outputs[0].type != input->type)
    return hasten_refuse(call, "it takes and gives one element type of a fixed size");
  Walk walk = {0};
  const unsigned char* source = input->data;
  ptrdiff_t steps[HASTEN_MAX_RANK];
  for (int axis = slice.rank - 1; axis >= 0; --axis) {
    if (slice.axes[axis].count == 0) return 0; /* the output has no elements */
    steps[axis] = (ptrdiff_t)size * slice.axes[axis].step;
    source += (ptrdiff_t)size * slice.axes[axis].start;
    size *= (size_t)input->shape[axis];
  }
  /* Inner axes that are read whole are one piece. */
  int inner = slice.rank;
  while (inner > 0 && slice.axes[inner - 1].step == 1 && slice.axes[inner - 1].count == input->shape[inner - 1])
    bytes *= (size_t)input->shape[--inner];
  if (inner > 0 && slice.axes[inner - 1].step == 1) bytes *= (size_t)slice.axes[--inner].count;
  for (int axis = 0; axis < inner; ++axis) {
    if (slice.axes[axis].count == 1) continue;
    walk.counts[walk.rank] = (size_t)slice.axes[axis].count;
    walk.steps[walk.rank++] = steps[axis];
  }
  if (walk.rank == 0) memcpy(call->outputs[0].data, source, bytes);
  else copy(&walk, 0, source, call->outputs[0].data, bytes);
  return 0;
}
