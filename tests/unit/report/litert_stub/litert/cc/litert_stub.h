// Declarations of the parts of LiteRT's C++ interface that generated code uses, for a compiler's syntax check.
// Written for the tests after the interface's documentation; nothing here can be linked or run.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

enum LiteRtCpuKernelMode { kLiteRtCpuKernelModeBuiltin, kLiteRtCpuKernelModeReference };

namespace litert {

template <typename T>
class Expected {
 public:
  Expected(T value);  // NOLINT: as the real one, it takes a value without being asked
  explicit operator bool() const;
  T&& Take();
};

template <typename T>
class Expected<T&> {
 public:
  Expected(T& value);
  explicit operator bool() const;
  T& Take();
};

template <>
class Expected<void> {
 public:
  Expected();
  explicit operator bool() const;
};

struct Failed {
  template <typename T>
  operator Expected<T>() const;
};

enum class HwAccelerators { kCpu = 1, kGpu = 2, kNpu = 4 };
HwAccelerators operator|(HwAccelerators, HwAccelerators);
struct HwAcceleratorSet {
  explicit HwAcceleratorSet(HwAccelerators);
};

class Environment {
 public:
  struct Option {};
  static Expected<Environment> Create(const std::vector<Option>&);
};

struct CpuOptions {
  Expected<void> SetNumThreads(int);
  Expected<void> SetKernelMode(LiteRtCpuKernelMode);
};

struct GpuOptions {
  enum class Precision { kFp16, kFp32 };
  Expected<void> SetPrecision(Precision);
};

class Options {
 public:
  static Expected<Options> Create();
  Expected<void> SetHardwareAccelerators(HwAccelerators);
  Expected<void> SetHardwareAccelerators(HwAcceleratorSet);
  Expected<CpuOptions&> GetCpuOptions();
  Expected<GpuOptions&> GetGpuOptions();
};

class TensorBuffer {
 public:
  enum class LockMode { kRead, kWrite };
};

class TensorBufferScopedLock {
 public:
  template <typename T>
  static Expected<std::pair<TensorBufferScopedLock, T*>> Create(TensorBuffer&, TensorBuffer::LockMode);
};

class CompiledModel {
 public:
  static Expected<CompiledModel> Create(Environment&, const std::string&, Options&);
  Expected<TensorBuffer> CreateInputBuffer(const std::string&) const;
  Expected<TensorBuffer> CreateInputBuffer(const std::string&, const std::string&) const;
  Expected<TensorBuffer> CreateOutputBuffer(const std::string&) const;
  Expected<TensorBuffer> CreateOutputBuffer(const std::string&, const std::string&) const;
  Expected<void> Run(const std::vector<TensorBuffer>&, const std::vector<TensorBuffer>&) const;
  Expected<void> Run(const std::string&, const std::vector<TensorBuffer>&, const std::vector<TensorBuffer>&) const;
};

}  // namespace litert

#define LITERT_JOIN_(a, b) a##b
#define LITERT_JOIN(a, b) LITERT_JOIN_(a, b)
#define LITERT_ASSIGN_(temporary, target, expression)       \
  auto temporary = expression;                              \
  if (!temporary) return ::litert::Failed();                \
  target = temporary.Take()
#define LITERT_ASSIGN_OR_RETURN(target, expression) \
  LITERT_ASSIGN_(LITERT_JOIN(found_, __LINE__), target, expression)
#define LITERT_RETURN_IF_ERROR(expression)       \
  if (auto status_of_call = (expression); !status_of_call) return ::litert::Failed()
