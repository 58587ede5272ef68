/* What an external delegate needs to know of TensorFlow Lite's interface: the few structures it touches, in their layout
   of the releases that hasten accepts. Members that are not used are named for their place only. */

#ifndef DELEGATE_INTERFACE_H
#define DELEGATE_INTERFACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { STATUS_OK = 0, STATUS_ERROR = 1 };
enum { OPERATOR_ADD = 0 };
enum { TYPE_FLOAT32 = 1 };
enum { ACTIVATION_NONE = 0 };
enum { FLAG_ALLOW_DYNAMIC_TENSORS = 1 };

struct Context;
struct Delegate;

typedef struct {
  int size;
  int data[];
} Integers;

typedef struct {
  int type;
  void* data;
  Integers* shape;
  struct { float scale; int32_t zero_point; } quantization;
  int allocation_type;
  size_t bytes;
  const void* allocation;
  const char* name;
  void* delegate;
  int buffer_handle;
  bool data_is_stale;
  bool is_variable;
  struct { int type; void* parameters; } full_quantization;
  void* sparsity;
  const Integers* shape_signature;
} Tensor;

typedef struct {
  Integers* inputs;
  Integers* outputs;
  Integers* intermediates;
  Integers* temporaries;
  void* user_data;
  void* builtin_data;
  const void* custom_data;
  int custom_size;
  struct Delegate* delegate;
  bool might_have_side_effect;
} Node;

/* What `builtin_data` of an ADD points to. */
typedef struct {
  int activation;
} AddOptions;

typedef struct Registration {
  void* (*init)(struct Context*, const char*, size_t);
  void (*free)(struct Context*, void*);
  int (*prepare)(struct Context*, Node*);
  int (*invoke)(struct Context*, Node*);
  void* profiling_string;
  int32_t builtin_code;
  const char* custom_name;
  int version;
  void* external;
  void* async_kernel;
  uint64_t in_place;
} Registration;

typedef struct Context {
  size_t tensor_count;
  int (*get_execution_plan)(struct Context*, Integers**);
  Tensor* tensors;
  void* implementation;
  void* resize_tensor;
  void (*report_error)(struct Context*, const char*, ...);
  void* add_tensors;
  int (*get_node)(struct Context*, int, Node**, Registration**);
  int (*replace_nodes)(struct Context*, Registration, const Integers*, struct Delegate*);
} Context;

typedef struct Delegate {
  void* data;
  int (*prepare)(Context*, struct Delegate*);
  void* copy_from_buffer;
  void* copy_to_buffer;
  void* free_buffer;
  int64_t flags;
  void* opaque_builder;
} Delegate;

typedef struct {
  Delegate* delegate;
  Integers* nodes;
  Integers* inputs;
  Integers* outputs;
} Partition;

#endif
