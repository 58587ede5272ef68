/* A small, complete external delegate for TensorFlow Lite (LiteRT): it takes over the ADD operators of float32 tensors
   of one shape. Replace `takes` (which operators are yours) and `compute` (what your hardware does with one of them).

   How the engine uses it: it loads this library and calls tflite_plugin_create_delegate; it then calls the delegate's
   prepare, which looks through the graph and asks for the nodes that it wants; the engine groups them into partitions and
   makes a kernel for each (init, prepare), and runs that kernel (invoke) in the place of the nodes. */

#include "delegate_interface.h"

#include <stdlib.h>
#include <string.h>

/* One ADD of a partition: indices of its tensors. */
typedef struct {
  int a, b, sum;
} Addition;

/* What a partition needs from run to run. */
typedef struct {
  int count;
  Addition* additions;
  float** scratch; /* for values that never leave the partition: the engine gives those no memory */
} Kernel;

/* Which nodes are ours? Be strict: what is taken here and computed wrongly is worse than what is left to the CPU. */
static bool takes(const Context* context, const Node* node, const Registration* registration) {
  if (registration->builtin_code != OPERATOR_ADD) return false;
  const AddOptions* options = node->builtin_data;
  if (options == NULL || options->activation != ACTIVATION_NONE) return false;
  const Tensor* a = &context->tensors[node->inputs->data[0]];
  const Tensor* b = &context->tensors[node->inputs->data[1]];
  return a->type == TYPE_FLOAT32 && b->type == TYPE_FLOAT32 && a->bytes == b->bytes;
}

/* The work of one operator. */
static void compute(const float* a, const float* b, float* sum, size_t count) {
  for (size_t i = 0; i < count; ++i) sum[i] = a[i] + b[i];
}

static void* kernel_init(Context* context, const char* buffer, size_t length) {
  const Partition* partition = (const Partition*)buffer;
  (void)length;
  Kernel* kernel = calloc(1, sizeof(Kernel));
  kernel->count = partition->nodes->size;
  kernel->additions = calloc(kernel->count, sizeof(Addition));
  kernel->scratch = calloc(kernel->count, sizeof(float*));
  for (int i = 0; i < kernel->count; ++i) {
    Node* node;
    Registration* registration;
    context->get_node(context, partition->nodes->data[i], &node, &registration);
    kernel->additions[i] = (Addition){node->inputs->data[0], node->inputs->data[1], node->outputs->data[0]};
  }
  return kernel;
}

static void kernel_free(Context* context, void* data) {
  Kernel* kernel = data;
  (void)context;
  for (int i = 0; i < kernel->count; ++i) free(kernel->scratch[i]);
  free(kernel->scratch);
  free(kernel->additions);
  free(kernel);
}

/* Shapes are settled: the place to allocate. Called again when an input is resized. */
static int kernel_prepare(Context* context, Node* node) {
  Kernel* kernel = node->user_data;
  for (int i = 0; i < kernel->count; ++i) {
    size_t bytes = context->tensors[kernel->additions[i].sum].bytes;
    float* memory = realloc(kernel->scratch[i], bytes);
    if (memory == NULL && bytes != 0) return STATUS_ERROR;
    kernel->scratch[i] = memory;
  }
  return STATUS_OK;
}

/* Where a tensor's values are: the engine's memory, or the scratch of the addition that made them. */
static float* values(Context* context, Kernel* kernel, int before, int tensor) {
  if (context->tensors[tensor].data != NULL) return context->tensors[tensor].data;
  for (int i = before - 1; i >= 0; --i)
    if (kernel->additions[i].sum == tensor) return kernel->scratch[i];
  return NULL;
}

static int kernel_invoke(Context* context, Node* node) {
  Kernel* kernel = node->user_data;
  for (int i = 0; i < kernel->count; ++i) {
    const Addition* addition = &kernel->additions[i];
    Tensor* output = &context->tensors[addition->sum];
    const float* a = values(context, kernel, i, addition->a);
    const float* b = values(context, kernel, i, addition->b);
    if (a == NULL || b == NULL) {
      context->report_error(context, "my delegate: an input has no memory");
      return STATUS_ERROR;
    }
    compute(a, b, output->data != NULL ? output->data : kernel->scratch[i], output->bytes / sizeof(float));
  }
  return STATUS_OK;
}

static int delegate_prepare(Context* context, Delegate* delegate) {
  Integers* order;
  if (context->get_execution_plan(context, &order) != STATUS_OK) return STATUS_ERROR;
  Integers* taken = malloc(sizeof(Integers) + order->size * sizeof(int));
  taken->size = 0;
  for (int i = 0; i < order->size; ++i) {
    Node* node;
    Registration* registration;
    if (context->get_node(context, order->data[i], &node, &registration) != STATUS_OK) continue;
    if (takes(context, node, registration)) taken->data[taken->size++] = order->data[i];
  }
  Registration kernel = {.init = kernel_init, .free = kernel_free, .prepare = kernel_prepare, .invoke = kernel_invoke,
                         .custom_name = "MyDelegate", .version = 1};
  int status = taken->size == 0 ? STATUS_OK : context->replace_nodes(context, kernel, taken, delegate);
  free(taken);
  return status;
}

/* The two functions that every external delegate exports. `keys` and `options` come from LIB:key=value;key=value. */
Delegate* tflite_plugin_create_delegate(const char* const* keys, const char* const* options, size_t count,
                                        void (*report_error)(const char*)) {
  for (size_t i = 0; i < count; ++i) {
    if (strcmp(keys[i], "device") != 0) {
      if (report_error != NULL) report_error("my delegate knows one option, device");
      return NULL;
    }
    (void)options[i]; /* a real delegate would open this device here, and return NULL if it is not there */
  }
  Delegate* delegate = calloc(1, sizeof(Delegate));
  delegate->prepare = delegate_prepare;
  return delegate;
}

void tflite_plugin_destroy_delegate(Delegate* delegate) { free(delegate); }
