/* An external delegate that computes the ADD operators of float32 tensors of one shape, rightly; and that does something
   dreadful on request. Options:
     at     create, prepare or invoke: where it strikes
     after  how many invocations it lets pass before
     fault  segfault, abort, hang, exit, exhaust, error, print, none (takes no operator), wrong (subtracts instead),
            lazy (computes nothing and reports success), slow (waits 2 ms)
     pipe   a named pipe that it opens when it strikes, so that somebody can wait for that */

#include "delegate_interface.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct {
  char at[16];
  char fault[16];
  char pipe[512];
  long after;
  long invocations;
} Plan;

typedef struct {
  int count;
  int (*nodes)[3]; /* indices of the two inputs and the output */
  void** scratch;  /* for values that never leave the partition, which the engine does not allocate */
} Kernel;

static Plan plan;

static void exhaust(void) {
  const size_t piece = (size_t)16 << 20;
  for (;;) {
    char* memory = malloc(piece);
    if (memory == NULL) {
      fprintf(stderr, "planted delegate: out of memory\n");
      abort();
    }
    memset(memory, 1, piece);
  }
}

/* Whether the caller must report an error. */
static bool strike(const char* where) {
  if (strcmp(plan.at, where) != 0) return false;
  fprintf(stderr, "planted delegate: %s in %s\n", plan.fault, where);
  if (plan.pipe[0] != 0) close(open(plan.pipe, O_WRONLY));
  if (strcmp(plan.fault, "segfault") == 0) raise(SIGSEGV);
  if (strcmp(plan.fault, "abort") == 0) abort();
  if (strcmp(plan.fault, "exit") == 0) _exit(3);
  if (strcmp(plan.fault, "exhaust") == 0) exhaust();
  if (strcmp(plan.fault, "hang") == 0) for (;;) pause();
  if (strcmp(plan.fault, "print") == 0) {
    printf("not an answer\n");
    fflush(stdout);
  }
  return strcmp(plan.fault, "error") == 0;
}

static void* kernel_init(Context* context, const char* buffer, size_t length) {
  const Partition* partition = (const Partition*)buffer;
  Kernel* kernel = calloc(1, sizeof(Kernel));
  (void)length;
  kernel->count = partition->nodes->size;
  kernel->nodes = calloc(kernel->count, sizeof(*kernel->nodes));
  kernel->scratch = calloc(kernel->count, sizeof(void*));
  for (int i = 0; i < kernel->count; ++i) {
    Node* node;
    Registration* registration;
    context->get_node(context, partition->nodes->data[i], &node, &registration);
    kernel->nodes[i][0] = node->inputs->data[0];
    kernel->nodes[i][1] = node->inputs->data[1];
    kernel->nodes[i][2] = node->outputs->data[0];
  }
  return kernel;
}

static void kernel_free(Context* context, void* data) {
  Kernel* kernel = data;
  (void)context;
  for (int i = 0; i < kernel->count; ++i) free(kernel->scratch[i]);
  free(kernel->scratch);
  free(kernel->nodes);
  free(kernel);
}

static int kernel_prepare(Context* context, Node* node) {
  (void)context;
  (void)node;
  return strike("prepare") ? STATUS_ERROR : STATUS_OK;
}

static float* values(Context* context, Kernel* kernel, int before, int tensor) {
  if (context->tensors[tensor].data != NULL) return context->tensors[tensor].data;
  for (int i = 0; i < before; ++i)
    if (kernel->nodes[i][2] == tensor) return kernel->scratch[i];
  return NULL;
}

static int kernel_invoke(Context* context, Node* node) {
  Kernel* kernel = node->user_data;
  if (plan.invocations++ >= plan.after && strike("invoke")) {
    context->report_error(context, "planted delegate: the device is on fire");
    return STATUS_ERROR;
  }
  const bool is_due = plan.invocations > plan.after;
  if (is_due && strcmp(plan.fault, "lazy") == 0) return STATUS_OK;
  if (is_due && strcmp(plan.fault, "slow") == 0) usleep(2000);
  for (int i = 0; i < kernel->count; ++i) {
    Tensor* output = &context->tensors[kernel->nodes[i][2]];
    const float* a = values(context, kernel, i, kernel->nodes[i][0]);
    const float* b = values(context, kernel, i, kernel->nodes[i][1]);
    float* sum = output->data;
    if (sum == NULL) sum = kernel->scratch[i] = realloc(kernel->scratch[i], output->bytes);
    const float sign = strcmp(plan.fault, "wrong") == 0 ? -1.0f : 1.0f;
    for (size_t k = 0; k < output->bytes / sizeof(float); ++k) sum[k] = a[k] + sign * b[k];
  }
  return STATUS_OK;
}

static bool takes(const Context* context, const Node* node, const Registration* registration) {
  if (strcmp(plan.fault, "none") == 0 || registration->builtin_code != OPERATOR_ADD) return false;
  const Tensor* a = &context->tensors[node->inputs->data[0]];
  const Tensor* b = &context->tensors[node->inputs->data[1]];
  return a->type == TYPE_FLOAT32 && b->type == TYPE_FLOAT32 && a->bytes == b->bytes;
}

static int delegate_prepare(Context* context, Delegate* delegate) {
  Integers* order;
  if (context->get_execution_plan(context, &order) != STATUS_OK) return STATUS_ERROR;
  Integers* taken = malloc(sizeof(Integers) + order->size * sizeof(int));
  taken->size = 0;
  for (int i = 0; i < order->size; ++i) {
    Node* node;
    Registration* registration;
    context->get_node(context, order->data[i], &node, &registration);
    if (takes(context, node, registration)) taken->data[taken->size++] = order->data[i];
  }
  Registration kernel = {.init = kernel_init, .free = kernel_free, .prepare = kernel_prepare, .invoke = kernel_invoke,
                         .custom_name = "PlantedDelegate", .version = 1};
  int status = taken->size == 0 ? STATUS_OK : context->replace_nodes(context, kernel, taken, delegate);
  free(taken);
  return status;
}

Delegate* tflite_plugin_create_delegate(const char* const* keys, const char* const* options, size_t count,
                                        void (*report_error)(const char*)) {
  for (size_t i = 0; i < count; ++i) {
    if (strcmp(keys[i], "at") == 0) snprintf(plan.at, sizeof(plan.at), "%s", options[i]);
    if (strcmp(keys[i], "fault") == 0) snprintf(plan.fault, sizeof(plan.fault), "%s", options[i]);
    if (strcmp(keys[i], "pipe") == 0) snprintf(plan.pipe, sizeof(plan.pipe), "%s", options[i]);
    if (strcmp(keys[i], "after") == 0) plan.after = atol(options[i]);
  }
  if (strike("create")) {
    report_error("no such device");
    return NULL;
  }
  Delegate* delegate = calloc(1, sizeof(Delegate));
  delegate->prepare = delegate_prepare;
  delegate->flags = FLAG_ALLOW_DYNAMIC_TENSORS;
  return delegate;
}

void tflite_plugin_destroy_delegate(Delegate* delegate) { free(delegate); }
