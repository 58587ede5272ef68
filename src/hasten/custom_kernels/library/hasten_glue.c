/* Between LiteRT's custom-operator interface (release 2.3) and the kernels of hasten_kernel_table.

   Traps that it takes care of:
   - LiteRT shares one user_data among all operators of a name, calls Init and Destroy for each, and does not tell Run
     which one it is: so there is one instance for each name, and operators of one name must have equal options;
   - LiteRT 2.3 ignores what Init, GetOutputLayouts and Run answer: a failure is kept here for the caller to see, and a
     kernel runs only on tensors whose shapes it has agreed to;
   - LiteRT refuses constant inputs that are not aligned to 64 bytes, as those of a .tflite file are: constants travel in
     the operator's options, and the kernel sees them among its inputs;
   - the kernel library is not linked to libLiteRt.so: its functions are looked up through the caller. */

#include "hasten_kernel.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OK = 0, INVALID_ARGUMENT = 1, RUNTIME_FAILURE = 3 };
enum { OP_CUSTOM = 32, CUSTOM_VERSION = 1, LOCK_READ = 0, LOCK_WRITE = 1 };
enum { ALIGNMENT = 64, MAX_ADDED = 64, SHAPES_KEPT = 8 };

typedef struct {
  unsigned int rank : 7;
  unsigned int has_strides : 1;
  int32_t dimensions[HASTEN_MAX_RANK];
  uint32_t strides[HASTEN_MAX_RANK];
} Layout;

typedef struct {
  int element_type;
  Layout layout;
} TensorType;

/* As LiteRT 2.3 lays them out. */
_Static_assert(sizeof(Layout) == 68 && sizeof(TensorType) == 72, "not the layout of LiteRT");

typedef struct {
  int (*init)(void*, const void*, size_t);
  int (*get_output_layouts)(void*, size_t, const Layout*, size_t, Layout*);
  int (*run)(void*, size_t, void* const*, size_t, void* const*);
  int (*destroy)(void*);
} LiteRtKernel;

static struct {
  int (*subgraph_count)(void*, size_t*);
  int (*subgraph)(void*, size_t, void**);
  int (*op_count)(void*, size_t*);
  int (*op)(void*, size_t, void**);
  int (*op_code)(void*, int*);
  int (*custom_code)(void*, const char**);
  int (*add_kernel)(void*, const char*, int, const LiteRtKernel*, void*);
  int (*tensor_type)(void*, TensorType*);
  int (*host_memory)(void*, void**);
  int (*lock)(void*, void**, int);
  int (*unlock)(void*);
} engine;

/* The options of a CUSTOM operator: this header, the constants' headers, the attributes, then the constants' bytes, each
   beginning at a multiple of 64. All numbers are little-endian. */
typedef struct {
  char magic[4];
  int32_t constant_count;
  int32_t attributes_size;
  int32_t reserved;
} OptionsHeader;

typedef struct {
  int32_t position; /* among the inputs that the kernel sees */
  int32_t type;
  int32_t rank;
  int32_t shape[HASTEN_MAX_RANK];
  int32_t reserved;
  int64_t bytes;
} ConstantHeader;

typedef struct Instance {
  struct Instance* next;
  const HastenKernel* kernel;
  int uses;
  const char* trouble; /* why it could not be set up; NULL if it could */
  uint64_t agreed[SHAPES_KEPT]; /* digests of shapes that the kernel has agreed to */
  int next_agreed;
  void* memory;
  unsigned char* options; /* in the memory, aligned as the constants in them must be */
  size_t options_size;
  int constant_count;
  int positions[HASTEN_MAX_TENSORS];
  HastenTensor constants[HASTEN_MAX_TENSORS];
  const void* attributes;
  size_t attributes_size;
  void* state;
  char name[];
} Instance;

static const char* const DAMAGED = "its options are damaged";
static int has_failed = 0;
static char failure[512];
static const Instance* failed_in_shapes = NULL;
static HastenKernel added[MAX_ADDED];
static size_t added_count = 0;
static Instance* instances = NULL; /* the newest first; they stay, as LiteRT does not say when it is done with one */

int hasten_kernel_abi(void) { return HASTEN_KERNEL_ABI; }

static size_t table_size(void) {
  size_t count = 0;
  while (hasten_kernel_table[count].name != NULL) ++count;
  return count;
}

static const HastenKernel* kernel_at(size_t index) {
  const size_t count = table_size();
  if (index < count) return &hasten_kernel_table[index];
  return index - count < added_count ? &added[index - count] : NULL;
}

const char* hasten_kernel_name(size_t index) {
  const HastenKernel* kernel = kernel_at(index);
  return kernel == NULL ? NULL : kernel->name;
}

int hasten_add_kernel(const char* name, int (*shapes)(HastenCall*), int (*run)(HastenCall*)) {
  size_t place = 0;
  while (place < added_count && strcmp(added[place].name, name) != 0) ++place;
  if (place == MAX_ADDED) return 1;
  if (place == added_count) {
    char* copy = malloc(strlen(name) + 1);
    if (copy == NULL) return 1;
    added[added_count++].name = strcpy(copy, name);
  }
  added[place].shapes = shapes;
  added[place].run = run;
  return 0;
}

static void forget_failure(void) {
  has_failed = 0;
  failed_in_shapes = NULL;
}

const char* hasten_kernel_failure(void) {
  if (!has_failed) return NULL;
  forget_failure();
  return failure;
}

/* The first failure counts: later ones follow from it. */
static int fail(const char* name, const char* why) {
  if (!has_failed) {
    snprintf(failure, sizeof failure, "%s: %s", name, why != NULL ? why : "it gave no reason");
    has_failed = 1;
  }
  return RUNTIME_FAILURE;
}

/* The kernel for a custom code: its name, or its name and # and anything. */
static const HastenKernel* kernel_for(const char* code) {
  const char* mark = strchr(code, '#');
  const size_t length = mark != NULL ? (size_t)(mark - code) : strlen(code);
  const HastenKernel* kernel;
  for (size_t i = 0; (kernel = kernel_at(i)) != NULL; ++i)
    if (strlen(kernel->name) == length && memcmp(kernel->name, code, length) == 0) return kernel;
  return NULL;
}

static size_t aligned(size_t size) { return (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT; }

/* Whether a constant has the bytes that its shape says, and the options have them: kernels trust the shape. */
static int is_whole(const ConstantHeader* entry, size_t offset, size_t options_size) {
  uint64_t bytes = hasten_element_size(entry->type);
  if (entry->position < 0 || entry->position >= HASTEN_MAX_TENSORS || bytes == 0) return 0;
  if (entry->rank < 0 || entry->rank > HASTEN_MAX_RANK || entry->bytes < 0) return 0;
  for (int axis = 0; axis < entry->rank; ++axis) {
    if (entry->shape[axis] < 0) return 0;
    bytes *= (uint64_t)entry->shape[axis];
    if (bytes > (uint64_t)entry->bytes) return 0;
  }
  return bytes == (uint64_t)entry->bytes && offset <= options_size && bytes <= options_size - offset;
}

/* Options that are not ours are the kernel's attributes as they are. */
static const char* read_options(Instance* self) {
  OptionsHeader header;
  self->attributes = self->options;
  self->attributes_size = self->options_size;
  if (self->options_size < sizeof header || memcmp(self->options, "HKP1", 4) != 0) return NULL;
  memcpy(&header, self->options, sizeof header);
  if (header.constant_count < 0 || header.constant_count > HASTEN_MAX_TENSORS || header.attributes_size < 0)
    return DAMAGED;
  size_t offset = sizeof header + (size_t)header.constant_count * sizeof(ConstantHeader);
  self->attributes = self->options + offset;
  self->attributes_size = (size_t)header.attributes_size;
  if (offset + self->attributes_size > self->options_size) return DAMAGED;
  offset = aligned(offset + self->attributes_size);
  const ConstantHeader* entries = (const ConstantHeader*)(self->options + sizeof header);
  for (int i = 0; i < header.constant_count; ++i) {
    const ConstantHeader* entry = &entries[i];
    if (!is_whole(entry, offset, self->options_size)) return DAMAGED;
    self->positions[i] = entry->position;
    HastenTensor* constant = &self->constants[i];
    constant->type = entry->type;
    constant->rank = entry->rank;
    memcpy(constant->shape, entry->shape, sizeof constant->shape);
    constant->data = self->options + offset;
    offset = aligned(offset + (size_t)entry->bytes);
  }
  self->constant_count = header.constant_count;
  return NULL;
}

/* The inputs that the kernel sees: constants at their places, what LiteRT hands over in the places between. */
static const char* place_inputs(const Instance* self, const HastenTensor* given, size_t count, HastenTensor* inputs) {
  const size_t total = count + (size_t)self->constant_count;
  size_t next = 0;
  if (total > HASTEN_MAX_TENSORS) return "it has too many inputs";
  for (size_t place = 0; place < total; ++place) {
    const HastenTensor* constant = NULL;
    for (int i = 0; i < self->constant_count; ++i)
      if ((size_t)self->positions[i] == place) constant = &self->constants[i];
    if (constant == NULL && next == count) return "its constants leave a place among the inputs empty";
    inputs[place] = constant != NULL ? *constant : given[next++];
  }
  return NULL;
}

static HastenCall call_for(const Instance* self, HastenTensor* inputs, size_t input_count, HastenTensor* outputs,
                           size_t output_count) {
  return (HastenCall){(int)input_count, inputs, (int)output_count, outputs, self->attributes, self->attributes_size,
                      self->state, NULL};
}

static int instance_init(void* user_data, const void* data, size_t size) {
  Instance* self = user_data;
  if (self->uses++ > 0) {
    if (size != self->options_size || (size > 0 && memcmp(data, self->options, size) != 0)) {
      self->trouble = "two operators of this name have different options";
      return fail(self->name, self->trouble);
    }
    return OK;
  }
  self->memory = malloc(size + ALIGNMENT);
  if (self->memory == NULL) {
    self->trouble = "there is no memory for its options";
    return fail(self->name, self->trouble);
  }
  self->options = (unsigned char*)aligned((size_t)self->memory);
  if (size > 0) memcpy(self->options, data, size);
  self->options_size = size;
  self->trouble = read_options(self);
  if (self->trouble == NULL && self->kernel->init != NULL) {
    HastenTensor inputs[HASTEN_MAX_TENSORS] = {{0}};
    for (int i = 0; i < self->constant_count; ++i) inputs[self->positions[i]] = self->constants[i];
    HastenCall call = call_for(self, inputs, HASTEN_MAX_TENSORS, NULL, 0);
    if (self->kernel->init(&call) != 0) self->trouble = call.error != NULL ? call.error : "it gave no reason";
    self->state = call.state;
  }
  return self->trouble == NULL ? OK : fail(self->name, self->trouble);
}

/* A failure that another set of shapes may mend. */
static int fail_in_shapes(const Instance* self, const char* why) {
  if (!has_failed) failed_in_shapes = self;
  return fail(self->name, why);
}

static int instance_get_output_layouts(void* user_data, size_t input_count, const Layout* input_layouts,
                                       size_t output_count, Layout* output_layouts) {
  Instance* self = user_data;
  HastenTensor given[HASTEN_MAX_TENSORS] = {{0}}, inputs[HASTEN_MAX_TENSORS], outputs[HASTEN_MAX_TENSORS] = {{0}};
  if (self->trouble != NULL) return fail(self->name, self->trouble);
  if (failed_in_shapes == self) forget_failure(); /* an input was resized since */
  if (input_count > HASTEN_MAX_TENSORS || output_count > HASTEN_MAX_TENSORS)
    return fail(self->name, "it has too many inputs or outputs");
  for (size_t i = 0; i < input_count; ++i) {
    given[i].rank = input_layouts[i].rank;
    if (given[i].rank > HASTEN_MAX_RANK) return fail_in_shapes(self, "an input has more than 8 dimensions");
    memcpy(given[i].shape, input_layouts[i].dimensions, (size_t)given[i].rank * sizeof(int32_t));
  }
  const char* trouble = place_inputs(self, given, input_count, inputs);
  if (trouble != NULL) return fail(self->name, trouble);
  HastenCall call = call_for(self, inputs, input_count + (size_t)self->constant_count, outputs, output_count);
  if (self->kernel->shapes(&call) != 0) return fail_in_shapes(self, call.error);
  for (size_t i = 0; i < output_count; ++i) {
    Layout* layout = &output_layouts[i];
    if (outputs[i].rank < 0 || outputs[i].rank > HASTEN_MAX_RANK)
      return fail(self->name, "it gives an output more than 8 dimensions");
    memset(layout, 0, sizeof *layout);
    layout->rank = (unsigned int)outputs[i].rank & 127u;
    memcpy(layout->dimensions, outputs[i].shape, (size_t)outputs[i].rank * sizeof(int32_t));
  }
  return OK;
}

static int is_constant(const Instance* self, int place) {
  for (int i = 0; i < self->constant_count; ++i)
    if (self->positions[i] == place) return 1;
  return 0;
}

static uint64_t digest_of(uint64_t digest, const HastenTensor* tensors, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    digest = (digest ^ (uint64_t)(tensors[i].rank + 1)) * 0x100000001b3u;
    for (int axis = 0; axis < tensors[i].rank; ++axis)
      digest = (digest ^ (uint32_t)tensors[i].shape[axis]) * 0x100000001b3u;
  }
  return digest;
}

/* Whether the outputs have the shapes that the kernel will write. Asked once for each set of shapes: operators of one
   name may have several, and LiteRT gives no sign when one was refused. */
static const char* disagreement(Instance* self, const HastenCall* run) {
  uint64_t digest = digest_of(0xcbf29ce484222325u, run->inputs, (size_t)run->input_count);
  digest = digest_of(digest, run->outputs, (size_t)run->output_count);
  for (int i = 0; i < SHAPES_KEPT; ++i)
    if (self->agreed[i] == digest) return NULL;
  HastenTensor inputs[HASTEN_MAX_TENSORS], outputs[HASTEN_MAX_TENSORS] = {{0}};
  for (int place = 0; place < run->input_count; ++place) {
    inputs[place] = run->inputs[place];
    if (is_constant(self, place)) continue;
    inputs[place].type = 0; /* as when LiteRT asks */
    inputs[place].data = NULL;
  }
  HastenCall call = call_for(self, inputs, (size_t)run->input_count, outputs, (size_t)run->output_count);
  if (self->kernel->shapes(&call) != 0) return call.error != NULL ? call.error : "it gave no reason";
  for (int i = 0; i < run->output_count; ++i) {
    int is_same = outputs[i].rank == run->outputs[i].rank;
    for (int axis = 0; is_same && axis < outputs[i].rank; ++axis)
      is_same = outputs[i].shape[axis] == run->outputs[i].shape[axis];
    if (!is_same) return "an output has another shape than the kernel gives it";
  }
  self->agreed[self->next_agreed] = digest;
  self->next_agreed = (self->next_agreed + 1) % SHAPES_KEPT;
  return NULL;
}

/* What is at a buffer. Host memory is handed out as it is; a GPU's or NPU's is locked, and unlocked after the run. */
static int open_buffer(void* buffer, HastenTensor* tensor, int mode, void** locked) {
  TensorType type;
  if (engine.tensor_type(buffer, &type) != OK || type.layout.rank > HASTEN_MAX_RANK) return RUNTIME_FAILURE;
  tensor->type = type.element_type;
  tensor->rank = type.layout.rank;
  memcpy(tensor->shape, type.layout.dimensions, sizeof tensor->shape);
  if (engine.host_memory(buffer, &tensor->data) == OK) return OK;
  if (engine.lock(buffer, &tensor->data, mode) != OK) return RUNTIME_FAILURE;
  *locked = buffer;
  return OK;
}

static int instance_run(void* user_data, size_t input_count, void* const* inputs, size_t output_count,
                        void* const* outputs) {
  Instance* self = user_data;
  HastenTensor given[HASTEN_MAX_TENSORS] = {{0}}, seen[HASTEN_MAX_TENSORS], results[HASTEN_MAX_TENSORS];
  void* locked[2 * HASTEN_MAX_TENSORS];
  const char* trouble = NULL;
  if (self->trouble != NULL) return fail(self->name, self->trouble);
  if (input_count > HASTEN_MAX_TENSORS || output_count > HASTEN_MAX_TENSORS)
    return fail(self->name, "it has too many inputs or outputs");
  size_t opened = 0;
  for (; opened < input_count + output_count && trouble == NULL; ++opened) {
    const int is_input = opened < input_count;
    void* buffer = is_input ? inputs[opened] : outputs[opened - input_count];
    HastenTensor* tensor = is_input ? &given[opened] : &results[opened - input_count];
    locked[opened] = NULL;
    if (open_buffer(buffer, tensor, is_input ? LOCK_READ : LOCK_WRITE, &locked[opened]) != OK)
      trouble = "the memory of a tensor cannot be reached";
  }
  if (trouble == NULL) trouble = place_inputs(self, given, input_count, seen);
  if (trouble == NULL) {
    HastenCall call = call_for(self, seen, input_count + (size_t)self->constant_count, results, output_count);
    trouble = disagreement(self, &call);
    if (trouble == NULL && self->kernel->run(&call) != 0) trouble = call.error != NULL ? call.error : "it gave no reason";
  }
  for (size_t i = 0; i < opened; ++i)
    if (locked[i] != NULL) engine.unlock(locked[i]);
  return trouble == NULL ? OK : fail(self->name, trouble);
}

static int instance_destroy(void* user_data) {
  Instance* self = user_data;
  if (self->uses <= 0 || --self->uses > 0) return OK;
  if (self->kernel->destroy != NULL && self->state != NULL) self->kernel->destroy(self->state);
  free(self->memory);
  self->memory = self->options = NULL;
  self->state = NULL;
  self->constant_count = 0;
  self->attributes = NULL;
  self->options_size = self->attributes_size = 0;
  self->trouble = NULL;
  memset(self->agreed, 0, sizeof self->agreed);
  return OK;
}

static const LiteRtKernel litert_kernel = {instance_init, instance_get_output_layouts, instance_run, instance_destroy};

static int find_engine(void* (*symbol)(void*, const char*), void* handle) {
  const struct { const char* name; void* place; } functions[] = {
      {"LiteRtGetNumModelSubgraphs", &engine.subgraph_count},
      {"LiteRtGetModelSubgraph", &engine.subgraph},
      {"LiteRtGetNumSubgraphOps", &engine.op_count},
      {"LiteRtGetSubgraphOp", &engine.op},
      {"LiteRtGetOpCode", &engine.op_code},
      {"LiteRtGetCustomCode", &engine.custom_code},
      {"LiteRtAddCustomOpKernelOption", &engine.add_kernel},
      {"LiteRtGetTensorBufferTensorType", &engine.tensor_type},
      {"LiteRtGetTensorBufferHostMemory", &engine.host_memory},
      {"LiteRtLockTensorBuffer", &engine.lock},
      {"LiteRtUnlockTensorBuffer", &engine.unlock},
  };
  for (size_t i = 0; i < sizeof functions / sizeof *functions; ++i) {
    void* address = symbol(handle, functions[i].name);
    if (address == NULL) {
      fail(functions[i].name, "LiteRT's library does not have this function");
      return 0;
    }
    memcpy(functions[i].place, &address, sizeof address);
  }
  return 1;
}

/* Operators of one name share an instance, but not with a model that was registered before (`older` and on). */
static int register_name(void* options, const char* code, const Instance* older, int* count) {
  const HastenKernel* kernel = kernel_for(code);
  if (kernel == NULL) return OK; /* perhaps another library has it */
  for (const Instance* known = instances; known != older; known = known->next)
    if (strcmp(known->name, code) == 0) return OK;
  Instance* self = calloc(1, sizeof *self + strlen(code) + 1);
  if (self == NULL) return fail(code, "there is no memory for it");
  strcpy(self->name, code);
  self->kernel = kernel;
  self->next = instances;
  instances = self;
  ++*count;
  if (engine.add_kernel(options, self->name, CUSTOM_VERSION, &litert_kernel, self) != OK)
    return fail(code, "LiteRT does not take the kernel");
  return OK;
}

int hasten_register_kernels(void* options, void* model, void* (*symbol)(void*, const char*), void* handle) {
  size_t subgraphs = 0;
  const Instance* older = instances;
  int count = 0, status = OK;
  forget_failure();
  if (!find_engine(symbol, handle)) return -1;
  if (engine.subgraph_count(model, &subgraphs) != OK) return -1;
  for (size_t s = 0; s < subgraphs && status == OK; ++s) {
    void* subgraph = NULL;
    size_t ops = 0;
    if (engine.subgraph(model, s, &subgraph) != OK || engine.op_count(subgraph, &ops) != OK) status = INVALID_ARGUMENT;
    for (size_t o = 0; o < ops && status == OK; ++o) {
      void* op = NULL;
      int code = 0;
      const char* name = NULL;
      if (engine.op(subgraph, o, &op) != OK || engine.op_code(op, &code) != OK) status = INVALID_ARGUMENT;
      if (status == OK && code == OP_CUSTOM && engine.custom_code(op, &name) == OK && name != NULL)
        status = register_name(options, name, older, &count);
    }
  }
  return status == OK ? count : -1;
}
