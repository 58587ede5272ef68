/* What a custom kernel for LiteRT is made of. A library of kernels is C (or anything that exports C functions) plus
   hasten_glue.c, which turns LiteRT's buffers into plain pointers: no other code runs between LiteRT and a kernel.

     static int shapes(HastenCall* call) { call->outputs[0] = call->inputs[0]; return 0; }
     static int run(HastenCall* call) { ...call->inputs[0].data...; return 0; }
     const HastenKernel hasten_kernel_table[] = {{"my_kernel", NULL, shapes, run, NULL}, {NULL}};

     cc -O3 -shared -fPIC -fvisibility=hidden -o libmy_kernel.so my_kernel.c hasten_glue.c -lm

   A model calls it by a CUSTOM operator named my_kernel, or my_kernel#ANYTHING: LiteRT does not tell a kernel which
   operator it runs for, so that operators with different constants or attributes need different names. */

#ifndef HASTEN_KERNEL_H
#define HASTEN_KERNEL_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HASTEN_KERNEL_ABI 1
/* Kernels are built with -fvisibility=hidden, so that libraries in one process cannot mix up their tables. */
#define HASTEN_EXPORT __attribute__((visibility("default")))
#define HASTEN_MAX_RANK 8
#define HASTEN_MAX_TENSORS 32

/* Element types, with LiteRT's numbers. */
enum {
  HASTEN_FLOAT32 = 1,
  HASTEN_INT32 = 2,
  HASTEN_UINT8 = 3,
  HASTEN_INT64 = 4,
  HASTEN_BOOL = 6,
  HASTEN_INT16 = 7,
  HASTEN_INT8 = 9,
  HASTEN_FLOAT16 = 10,
  HASTEN_FLOAT64 = 11,
  HASTEN_UINT64 = 13,
  HASTEN_UINT32 = 16,
  HASTEN_UINT16 = 17,
};

typedef struct {
  int32_t type; /* 0 while shapes are worked out, but for constants */
  int32_t rank;
  int32_t shape[HASTEN_MAX_RANK];
  void* data; /* row-major; NULL while shapes are worked out, but for constants */
} HastenTensor;

/* One use of a kernel. Inputs stand as the original operator had them; its constants are among them, at their places,
   in memory that is aligned to 64 bytes. */
typedef struct {
  int input_count;
  const HastenTensor* inputs;
  int output_count;
  HastenTensor* outputs; /* `shapes` fills in rank and shape; `run` fills the memory at `data` */
  const void* attributes;
  size_t attributes_size;
  void* state; /* whatever `init` puts here */
  const char* error; /* a sentence without its full stop: why a function answers something other than 0 */
} HastenCall;

/* Functions answer 0, or anything else after setting call->error. `init` and `destroy` may be NULL. */
typedef struct {
  const char* name;
  int (*init)(HastenCall* call);   /* once, with the attributes and the constants; other inputs are empty */
  int (*shapes)(HastenCall* call); /* when shapes are settled, and again when an input is resized */
  int (*run)(HastenCall* call);
  void (*destroy)(void* state);
} HastenKernel;

/* Every library defines its kernels here; the last entry has no name. */
extern const HastenKernel hasten_kernel_table[];

/* What hasten_glue.c exports. */

HASTEN_EXPORT int hasten_kernel_abi(void);
/* The name of a kernel; NULL after the last. */
HASTEN_EXPORT const char* hasten_kernel_name(size_t index);
/* Add a kernel that is made at run time, in place of an added one of that name. Answers 0, or 1 if there is no room. */
HASTEN_EXPORT int hasten_add_kernel(const char* name, int (*shapes)(HastenCall*), int (*run)(HastenCall*));
/* Register a kernel for each CUSTOM operator of a LiteRtModel that this library has one for, with LiteRtOptions.
   `symbol` is dlsym, `handle` that of libLiteRt.so. Answers how many names were registered, or -1. */
HASTEN_EXPORT int hasten_register_kernels(void* options, void* model, void* (*symbol)(void*, const char*), void* handle);
/* Why a kernel failed since this was last asked; NULL if none did. LiteRT 2.3 ignores what kernels answer: ask after
   compiling a model and after each run. */
HASTEN_EXPORT const char* hasten_kernel_failure(void);

/* Small helpers for kernels. */

static inline size_t hasten_elements(const HastenTensor* tensor, int from, int to) {
  size_t count = 1;
  for (int axis = from; axis < to; ++axis) count *= (size_t)tensor->shape[axis];
  return count;
}

static inline size_t hasten_element_size(int32_t type) {
  switch (type) {
    case HASTEN_UINT8: case HASTEN_BOOL: case HASTEN_INT8: return 1;
    case HASTEN_INT16: case HASTEN_FLOAT16: case HASTEN_UINT16: return 2;
    case HASTEN_FLOAT32: case HASTEN_INT32: case HASTEN_UINT32: return 4;
    case HASTEN_INT64: case HASTEN_FLOAT64: case HASTEN_UINT64: return 8;
    default: return 0;
  }
}

/* Whether a tensor is a constant of one type (or of either of two) with so many elements. */
static inline int hasten_is_constant(const HastenTensor* tensor, int32_t type, int32_t other, size_t elements) {
  return tensor->data != NULL && (tensor->type == type || tensor->type == other) &&
         hasten_elements(tensor, 0, tensor->rank) == elements;
}

static inline int hasten_refuse(HastenCall* call, const char* why) {
  call->error = why;
  return 1;
}

static inline void hasten_same_shape(HastenTensor* output, const HastenTensor* input) {
  output->rank = input->rank;
  for (int axis = 0; axis < input->rank; ++axis) output->shape[axis] = input->shape[axis];
}

#ifdef __cplusplus
}
#endif
#endif
