/* hasten's own kernels as an external delegate: it takes the operators that LiteRT's built-in kernels run slowly, and
   leaves the model file as it is. It works in both interfaces of LiteRT, and for Android's Interpreter.

   An operator is taken only if its kernel agrees with the engine about the shape of the output. */

#include "delegate_interface.h"
#include "kernels.h"

#include <stdlib.h>
#include <string.h>

/* Numbers of the schema's BuiltinOperator. */
enum {
  GATHER = 36,
  STRIDED_SLICE = 45,
  ARG_MAX = 56,
  ARG_MIN = 79,
  FLOOR_DIV = 90,
  FLOOR_MOD = 95,
  MIRROR_PAD = 100,
  CUMSUM = 128,
};
enum { MEMORY_OF_FILE = 1, MAX_RANK = 6, MAX_INPUTS = 4, REFLECT = 1 };

/* What `builtin_data` of these operators points to, in LiteRT 2.3. */
typedef struct {
  int begin_mask, end_mask, ellipsis_mask, new_axis_mask, shrink_axis_mask;
  bool offset;
} StridedSliceOptions;
typedef struct {
  int mode;
} MirrorPadOptions;
typedef struct {
  bool exclusive, reverse;
} CumsumOptions;
typedef struct {
  int axis, batch_dims;
} GatherOptions;

/* One operator of a partition. */
typedef struct {
  int (*run)(HastenCall*);
  int (*shapes)(HastenCall*);
  int input_count;
  int inputs[MAX_INPUTS];
  int output;
  int32_t attributes[5];
  size_t attributes_size;
  bool is_inner; /* the output never leaves the partition, so that the engine has no memory for it */
  void* scratch; /* which then is here */
} Step;

typedef struct {
  int count;
  Step* steps;
} Partitioned;

static bool is_constant(const Tensor* tensor) { return tensor->allocation_type == MEMORY_OF_FILE; }

static HastenTensor seen(const Tensor* tensor, bool with_data) {
  HastenTensor result = {tensor->type, tensor->shape->size, {0}, with_data ? tensor->data : NULL};
  for (int axis = 0; axis < result.rank; ++axis) result.shape[axis] = tensor->shape->data[axis];
  return result;
}

static int last_axis(const Tensor* tensor) { return tensor->shape->size - 1; }

/* The axis that a constant tensor names, counted from the front; -1 if it names none. */
static int named_axis(const Tensor* input, const Tensor* axis) {
  const HastenTensor inputs[] = {seen(input, false), seen(axis, is_constant(axis))};
  const HastenCall call = {.input_count = 2, .inputs = inputs};
  int found;
  return hasten_named_axis(&call, &found) ? found : -1;
}

static bool is_one_of(int type, const int* types, size_t count) {
  for (size_t i = 0; i < count; ++i)
    if (types[i] == type) return true;
  return false;
}

#define IS_ONE_OF(TYPE, ...) is_one_of(TYPE, (const int[]){__VA_ARGS__}, sizeof((int[]){__VA_ARGS__}) / sizeof(int))

static bool has_stride(const Tensor* strides) {
  const int32_t* values = strides->data;
  for (size_t i = 0; i < strides->bytes / sizeof *values; ++i)
    if (values[i] != 1) return true;
  return false;
}

/* Whether a node is one that its kernel runs faster; fills in how to run it. */
static bool describe(const Tensor* tensors, const Node* node, int code, Step* step) {
  const Tensor* input = &tensors[node->inputs->data[0]];
  const Tensor* second = &tensors[node->inputs->data[1]];
  const void* options = node->builtin_data;
  if (is_constant(input)) return false;
  switch (code) {
    case STRIDED_SLICE: {
      const StridedSliceOptions* given = options;
      if (given == NULL || given->offset || node->inputs->size != 4 || hasten_element_size(input->type) == 0) return false;
      for (int i = 1; i < 4; ++i)
        if (!is_constant(&tensors[node->inputs->data[i]])) return false;
      if (!has_stride(&tensors[node->inputs->data[3]])) return false;
      const int32_t masks[5] = {given->begin_mask, given->end_mask, given->ellipsis_mask, given->new_axis_mask,
                                given->shrink_axis_mask};
      memcpy(step->attributes, masks, sizeof masks);
      step->attributes_size = sizeof masks;
      step->run = hasten_strided_slice_run, step->shapes = hasten_strided_slice_shapes;
      return true;
    }
    case MIRROR_PAD: {
      const MirrorPadOptions* given = options;
      if (given == NULL || !is_constant(second) || hasten_element_size(input->type) == 0) return false;
      step->attributes[0] = given->mode == REFLECT;
      step->attributes_size = sizeof(int32_t);
      step->run = hasten_mirror_pad_run, step->shapes = hasten_mirror_pad_shapes;
      return true;
    }
    case CUMSUM: {
      const CumsumOptions* given = options;
      const int axis = named_axis(input, second);
      if (given == NULL || axis < 0 || axis == last_axis(input)) return false;
      if (!IS_ONE_OF(input->type, HASTEN_FLOAT32, HASTEN_INT32, HASTEN_INT64)) return false;
      step->attributes[0] = given->exclusive, step->attributes[1] = given->reverse;
      step->attributes_size = 2 * sizeof(int32_t);
      step->run = hasten_cumsum_run, step->shapes = hasten_cumsum_shapes;
      return true;
    }
    case ARG_MAX:
    case ARG_MIN: {
      const int axis = named_axis(input, second);
      if (axis < 0 || axis == last_axis(input)) return false;
      if (!IS_ONE_OF(input->type, HASTEN_FLOAT32, HASTEN_INT8, HASTEN_UINT8, HASTEN_INT32, HASTEN_BOOL)) return false;
      step->attributes[0] = code == ARG_MAX;
      step->attributes_size = sizeof(int32_t);
      step->run = hasten_arg_max_run, step->shapes = hasten_arg_max_shapes;
      return true;
    }
    case GATHER: {
      const GatherOptions* given = options;
      if (given == NULL || given->batch_dims != 0 || hasten_element_size(input->type) == 0) return false;
      if (given->axis != -1 && given->axis != last_axis(input)) return false;
      if (!IS_ONE_OF(second->type, HASTEN_INT16, HASTEN_INT32, HASTEN_INT64)) return false;
      step->run = hasten_gather_run, step->shapes = hasten_gather_shapes;
      return true;
    }
    case FLOOR_DIV:
      if (!IS_ONE_OF(input->type, HASTEN_FLOAT32, HASTEN_INT8, HASTEN_INT16, HASTEN_INT32)) return false;
      step->run = hasten_floor_div_run, step->shapes = hasten_floor_div_shapes;
      return true;
    case FLOOR_MOD:
      if (!IS_ONE_OF(input->type, HASTEN_FLOAT32, HASTEN_INT8, HASTEN_INT16, HASTEN_INT32, HASTEN_INT64)) return false;
      step->run = hasten_floor_mod_run, step->shapes = hasten_floor_mod_shapes;
      return true;
    default: return false;
  }
}

static HastenCall call_for(const Step* step, const HastenTensor* inputs, HastenTensor* output) {
  return (HastenCall){step->input_count, inputs, 1, output, step->attributes, step->attributes_size, NULL, NULL};
}

/* Whether the kernel gives the output the shape that the engine has for it. */
static bool agrees(const Tensor* tensors, const Step* step) {
  HastenTensor inputs[MAX_INPUTS], output = {0};
  const Tensor* expected = &tensors[step->output];
  for (int i = 0; i < step->input_count; ++i) {
    const Tensor* tensor = &tensors[step->inputs[i]];
    inputs[i] = seen(tensor, is_constant(tensor));
  }
  HastenCall call = call_for(step, inputs, &output);
  if (step->shapes(&call) != 0 || output.rank != expected->shape->size) return false;
  for (int axis = 0; axis < output.rank; ++axis)
    if (output.shape[axis] != expected->shape->data[axis]) return false;
  return true;
}

static bool takes(const Tensor* tensors, const Node* node, const Registration* registration, Step* step) {
  memset(step, 0, sizeof *step);
  if (node->inputs->size < 2 || node->inputs->size > MAX_INPUTS || node->outputs->size != 1) return false;
  for (int i = 0; i < node->inputs->size; ++i) {
    const int index = node->inputs->data[i];
    if (index < 0 || tensors[index].shape == NULL || tensors[index].shape->size > MAX_RANK) return false;
  }
  if (!describe(tensors, node, registration->builtin_code, step)) return false;
  step->input_count = node->inputs->size;
  memcpy(step->inputs, node->inputs->data, (size_t)node->inputs->size * sizeof(int));
  step->output = node->outputs->data[0];
  return tensors[step->output].shape != NULL && agrees(tensors, step);
}

static bool is_among(int tensor, const Integers* tensors) {
  for (int i = 0; i < tensors->size; ++i)
    if (tensors->data[i] == tensor) return true;
  return false;
}

static void partition_free(Context* context, void* data) {
  Partitioned* self = data;
  (void)context;
  if (self == NULL) return;
  for (int i = 0; i < self->count; ++i) free(self->steps[i].scratch);
  free(self->steps);
  free(self);
}

static void* partition_init(Context* context, const char* buffer, size_t length) {
  const Partition* partition = (const Partition*)buffer;
  (void)length;
  Partitioned* self = calloc(1, sizeof *self);
  if (self == NULL) return NULL;
  self->steps = calloc((size_t)partition->nodes->size, sizeof *self->steps);
  for (; self->steps != NULL && self->count < partition->nodes->size; ++self->count) {
    Node* node;
    Registration* registration;
    Step* step = &self->steps[self->count];
    if (context->get_node(context, partition->nodes->data[self->count], &node, &registration) != STATUS_OK ||
        !takes(context->tensors, node, registration, step)) {
      partition_free(context, self); /* without it, `prepare` fails */
      return NULL;
    }
    step->is_inner = !is_among(step->output, partition->outputs);
  }
  return self;
}

static int partition_prepare(Context* context, Node* node) {
  Partitioned* self = node->user_data;
  if (self == NULL || self->steps == NULL) return STATUS_ERROR;
  for (int i = 0; i < self->count; ++i) {
    Step* step = &self->steps[i];
    if (!step->is_inner) continue;
    void* memory = realloc(step->scratch, context->tensors[step->output].bytes + 1);
    if (memory == NULL) return STATUS_ERROR;
    step->scratch = memory;
  }
  return STATUS_OK;
}

/* A tensor with its values: in the engine's memory, or in the scratch of the step that makes them. */
static HastenTensor filled(const Context* context, const Partitioned* self, int tensor) {
  HastenTensor result = seen(&context->tensors[tensor], true);
  for (int i = 0; i < self->count; ++i)
    if (self->steps[i].output == tensor && self->steps[i].is_inner) result.data = self->steps[i].scratch;
  return result;
}

static int partition_invoke(Context* context, Node* node) {
  const Partitioned* self = node->user_data;
  for (int i = 0; i < self->count; ++i) {
    const Step* step = &self->steps[i];
    HastenTensor inputs[MAX_INPUTS], output = filled(context, self, step->output);
    for (int k = 0; k < step->input_count; ++k) inputs[k] = filled(context, self, step->inputs[k]);
    HastenCall call = call_for(step, inputs, &output);
    if (step->run(&call) != 0) {
      context->report_error(context, "hasten's kernels: %s", call.error != NULL ? call.error : "a kernel failed");
      return STATUS_ERROR;
    }
  }
  return STATUS_OK;
}

static int delegate_prepare(Context* context, Delegate* delegate) {
  Integers* order;
  if (context->get_execution_plan(context, &order) != STATUS_OK) return STATUS_ERROR;
  /* The engine overwrites this array when it is asked for nodes. */
  Integers* plan = malloc(sizeof *plan + (size_t)order->size * sizeof(int));
  Integers* taken = malloc(sizeof *taken + (size_t)order->size * sizeof(int));
  if (plan == NULL || taken == NULL) {
    free(plan);
    free(taken);
    return STATUS_ERROR;
  }
  memcpy(plan, order, sizeof *plan + (size_t)order->size * sizeof(int));
  taken->size = 0;
  for (int i = 0; i < plan->size; ++i) {
    Node* node;
    Registration* registration;
    Step step;
    if (context->get_node(context, plan->data[i], &node, &registration) != STATUS_OK) continue;
    if (takes(context->tensors, node, registration, &step)) taken->data[taken->size++] = plan->data[i];
  }
  const Registration kernel = {.init = partition_init, .free = partition_free, .prepare = partition_prepare,
                               .invoke = partition_invoke, .custom_name = "HastenKernels", .version = 1};
  const int status = taken->size == 0 ? STATUS_OK : context->replace_nodes(context, kernel, taken, delegate);
  free(plan);
  free(taken);
  return status;
}

HASTEN_EXPORT Delegate* tflite_plugin_create_delegate(const char* const* keys, const char* const* options, size_t count,
                                                      void (*report_error)(const char*)) {
  (void)keys;
  (void)options;
  if (count > 0) {
    if (report_error != NULL) report_error("hasten's kernels have no options");
    return NULL;
  }
  Delegate* delegate = calloc(1, sizeof *delegate);
  if (delegate != NULL) delegate->prepare = delegate_prepare;
  return delegate;
}

HASTEN_EXPORT void tflite_plugin_destroy_delegate(Delegate* delegate) { free(delegate); }
