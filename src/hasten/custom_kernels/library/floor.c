/* FLOOR_DIV and FLOOR_MOD with broadcasting, bit-equal to the builtins: an integer division by 0 is a failure (for
   FLOOR_DIV, that of floats as well).

   Floats. The builtins divide in double precision, and fmodf works bit by bit. Both are used only where they must be.
   Elsewhere: q = a / b in single precision, t an integer beside it, r = a - t * b in one rounding. For |q| < 2^22, q is
   rounded onto an integer at most, never across it: a q that is no integer has the right neighbours, and with an integer
   q the sign of r tells on which side of it the quotient lies. r is exact: it is a multiple of b's last place, and has
   no more than 24 bits of them. For |b| >= 2^-100 that place is a normal number, so that r is never a denormal one,
   which LiteRT's classic interface lets the processor take for 0; a denormal a is left to fmodf, which does not notice
   that. */

#include "kernels.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum { BLOCK = 256 };

static const float LARGEST_QUOTIENT = 0x1p22f, SMALLEST_DIVISOR = 0x1p-100f;

static int broadcast_shapes(HastenCall* call) {
  const HastenTensor *a = &call->inputs[0], *b = &call->inputs[1];
  HastenTensor* output = &call->outputs[0];
  if (call->input_count != 2) return hasten_refuse(call, "it takes 2 inputs");
  output->rank = a->rank > b->rank ? a->rank : b->rank;
  for (int i = 1; i <= output->rank; ++i) {
    const int32_t left = i <= a->rank ? a->shape[a->rank - i] : 1, right = i <= b->rank ? b->shape[b->rank - i] : 1;
    if (left != right && left != 1 && right != 1) return hasten_refuse(call, "its inputs cannot be broadcast");
    output->shape[output->rank - i] = left == 1 ? right : left;
  }
  return 0;
}

/* The bits of a number's magnitude: they are ordered as magnitudes are, with infinity and NaN above all numbers, and no
   processor takes those of denormal numbers for 0. */
static inline uint32_t magnitude(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits & 0x7fffffffu;
}

/* The largest of each kind in a block: whether all of it was easy is asked once. */
typedef struct {
  uint32_t quotient;
  uint32_t divisor;  /* above the smallest that is easy; what is below comes out largest */
  uint32_t dividend; /* subtracted from 0: that of denormal numbers is the largest */
} Extent;

static inline uint32_t larger(uint32_t a, uint32_t b) { return a > b ? a : b; }

static inline void extend(Extent* extent, float quotient, float b) {
  extent->quotient = larger(extent->quotient, magnitude(quotient));
  extent->divisor = larger(extent->divisor, magnitude(b) - magnitude(SMALLEST_DIVISOR));
}

static inline int is_easy(const Extent* extent) {
  return extent->quotient < magnitude(LARGEST_QUOTIENT) &&
         extent->divisor <= magnitude(FLT_MAX) - magnitude(SMALLEST_DIVISOR) &&
         extent->dividend <= 0u - magnitude(FLT_MIN);
}

/* a - t * b, rounded once. Both factors have so few bits that double precision has all of the product's. */
static inline float rest_of(float a, float t, float b) {
#if defined(FP_FAST_FMAF) || defined(__FMA__) || defined(__aarch64__)
  return fmaf(-t, b, a);
#else
  return (float)((double)a - (double)t * (double)b);
#endif
}

/* Whether a number is not 0 and has another sign than b. */
static inline int opposes(float value, float b) {
  uint32_t bits, other;
  memcpy(&bits, &value, sizeof bits);
  memcpy(&other, &b, sizeof other);
  bits ^= other & 0x80000000u;
  memcpy(&value, &bits, sizeof bits);
  return value < 0;
}

static inline float signed_remainder(float remainder, float b) {
  return opposes(remainder, b) ? remainder + b : remainder;
}

static inline float easy_modulus(float a, float b, Extent* extent) {
  const float quotient = a / b, rest = rest_of(a, truncf(quotient), b);
  extend(extent, quotient, b);
  extent->dividend = larger(extent->dividend, 0u - magnitude(a));
  /* Where the quotient was rounded away from 0, onto an integer, the rest has the wrong sign. */
  const float remainder = opposes(rest, a) ? rest + copysignf(b, a) : rest;
  return signed_remainder(copysignf(remainder, a), b);
}

static inline float hard_modulus(float a, float b) { return signed_remainder(fmodf(a, b), b); }

static inline float easy_quotient(float a, float b, Extent* extent) {
  const float quotient = a / b, whole = floorf(quotient);
  extend(extent, quotient, b);
  /* Where the quotient was rounded up, onto an integer, the rest has the wrong sign. */
  return opposes(rest_of(a, whole, b), b) ? whole - 1.0f : whole;
}

static inline float hard_quotient(float a, float b) { return (float)floor((double)a / (double)b); }

/* A row of `count` results; answers whether some were not easy. A step of 0 repeats one value of an input. Compilers
   make vectors of loops whose steps are constants, so each loop is there for the usual steps as well. */
#define ROW(NAME)                                                                                                  \
  static int NAME(const void* a, const void* b, void* out, size_t count, size_t a_step, size_t b_step) {           \
    if (a_step == 1 && b_step == 1) return NAME##_loop(a, b, out, count, 1, 1);                                    \
    if (a_step == 1 && b_step == 0) return NAME##_loop(a, b, out, count, 1, 0);                                    \
    return NAME##_loop(a, b, out, count, a_step, b_step);                                                          \
  }
#define LOOP(NAME, T)                                                                                              \
  static inline __attribute__((always_inline)) int NAME##_loop(const T* a, const T* b, T* restrict out,            \
                                                               size_t count, size_t a_step, size_t b_step)

/* In a block that was not easy as a whole, elements that were are left as they are. */
#define FLOAT_ROW(NAME)                                                                                            \
  LOOP(NAME##_float, float) {                                                                                      \
    int was_hard = 0;                                                                                              \
    for (size_t start = 0; start < count; start += BLOCK) {                                                        \
      const size_t size = count - start < BLOCK ? count - start : BLOCK;                                           \
      const float *x = a + start * a_step, *y = b + start * b_step;                                                \
      Extent extent = {0, 0, 0};                                                                                   \
      for (size_t i = 0; i < size; ++i) out[start + i] = easy_##NAME(x[i * a_step], y[i * b_step], &extent);       \
      if (is_easy(&extent)) continue;                                                                              \
      was_hard = 1;                                                                                                \
      for (size_t i = 0; i < size; ++i) {                                                                          \
        Extent own = {0, 0, 0};                                                                                    \
        const float result = easy_##NAME(x[i * a_step], y[i * b_step], &own);                                      \
        out[start + i] = is_easy(&own) ? result : hard_##NAME(x[i * a_step], y[i * b_step]);                       \
      }                                                                                                            \
    }                                                                                                              \
    return was_hard;                                                                                               \
  }                                                                                                                \
  ROW(NAME##_float)

FLOAT_ROW(modulus)
FLOAT_ROW(quotient)

/* The smallest integer divided by -1 does not fit, and a processor may trap on it: its remainder is 0. */
#define MODULUS_OF(T)                                                                                              \
  LOOP(modulus_##T, T) {                                                                                           \
    for (size_t i = 0; i < count; ++i) {                                                                           \
      const T v = b[i * b_step], remainder = v == -1 ? 0 : (T)(a[i * a_step] % v);                                 \
      out[i] = remainder != 0 && (v < 0) != (remainder < 0) ? (T)(remainder + v) : remainder;                      \
    }                                                                                                              \
    return 0;                                                                                                      \
  }                                                                                                                \
  ROW(modulus_##T)
#define QUOTIENT_OF(T)                                                                                             \
  LOOP(quotient_##T, T) {                                                                                          \
    for (size_t i = 0; i < count; ++i)                                                                             \
      out[i] = (T)(int32_t)floor((double)a[i * a_step] / (double)b[i * b_step]);                                   \
    return 0;                                                                                                      \
  }                                                                                                                \
  ROW(quotient_##T)

MODULUS_OF(int8_t)
MODULUS_OF(int16_t)
MODULUS_OF(int32_t)
MODULUS_OF(int64_t)
QUOTIENT_OF(int8_t)
QUOTIENT_OF(int16_t)
QUOTIENT_OF(int32_t)

typedef int (*Row)(const void*, const void*, void*, size_t, size_t, size_t);

static Row row_for(int32_t type, int is_modulus) {
  switch (type) {
    case HASTEN_FLOAT32: return is_modulus ? modulus_float : quotient_float;
    case HASTEN_INT8: return is_modulus ? modulus_int8_t : quotient_int8_t;
    case HASTEN_INT16: return is_modulus ? modulus_int16_t : quotient_int16_t;
    case HASTEN_INT32: return is_modulus ? modulus_int32_t : quotient_int32_t;
    case HASTEN_INT64: return is_modulus ? modulus_int64_t : NULL;
    default: return NULL;
  }
}

static int has_zero(const HastenTensor* tensor) {
  const size_t count = hasten_elements(tensor, 0, tensor->rank);
  int found = 0;
  switch (tensor->type) {
    case HASTEN_FLOAT32: for (size_t i = 0; i < count; ++i) found |= ((const float*)tensor->data)[i] == 0; break;
    case HASTEN_INT8: for (size_t i = 0; i < count; ++i) found |= ((const int8_t*)tensor->data)[i] == 0; break;
    case HASTEN_INT16: for (size_t i = 0; i < count; ++i) found |= ((const int16_t*)tensor->data)[i] == 0; break;
    case HASTEN_INT32: for (size_t i = 0; i < count; ++i) found |= ((const int32_t*)tensor->data)[i] == 0; break;
    default: for (size_t i = 0; i < count; ++i) found |= ((const int64_t*)tensor->data)[i] == 0; break;
  }
  return found;
}

typedef struct {
  Row row;
  size_t size; /* of an element */
  int rank, was_hard;
  size_t counts[HASTEN_MAX_RANK], a_steps[HASTEN_MAX_RANK], b_steps[HASTEN_MAX_RANK]; /* innermost first, in elements */
} Walk;

/* The axes of the output, those merged that both inputs cross alike; at least one. */
static void plan_walk(const HastenTensor* a, const HastenTensor* b, const HastenTensor* output, Walk* walk) {
  size_t a_step = 1, b_step = 1;
  for (int i = 1; i <= output->rank; ++i) {
    const size_t size = (size_t)output->shape[output->rank - i];
    const size_t left = i <= a->rank ? (size_t)a->shape[a->rank - i] : 1;
    const size_t right = i <= b->rank ? (size_t)b->shape[b->rank - i] : 1;
    const size_t a_here = left == 1 ? 0 : a_step, b_here = right == 1 ? 0 : b_step;
    a_step *= left;
    b_step *= right;
    if (size == 1) continue;
    const int last = walk->rank - 1;
    if (last >= 0 && a_here == walk->a_steps[last] * walk->counts[last] &&
        b_here == walk->b_steps[last] * walk->counts[last]) {
      walk->counts[last] *= size;
    } else {
      walk->counts[walk->rank] = size;
      walk->a_steps[walk->rank] = a_here;
      walk->b_steps[walk->rank++] = b_here;
    }
  }
  if (walk->rank == 0) walk->counts[walk->rank++] = 1;
}

static char* compute(Walk* walk, int axis, const char* a, const char* b, char* out) {
  const size_t count = walk->counts[axis], a_step = walk->a_steps[axis], b_step = walk->b_steps[axis];
  if (axis == 0) {
    walk->was_hard |= walk->row(a, b, out, count, a_step, b_step);
    return out + count * walk->size;
  }
  for (size_t i = 0; i < count; ++i)
    out = compute(walk, axis - 1, a + i * a_step * walk->size, b + i * b_step * walk->size, out);
  return out;
}

static int run(HastenCall* call, int is_modulus) {
  const HastenTensor *a = &call->inputs[0], *b = &call->inputs[1], *output = &call->outputs[0];
  Walk walk = {row_for(a->type, is_modulus), hasten_element_size(a->type), 0, 0, {0}, {0}, {0}};
  if (walk.row == NULL || a->type != b->type || a->type != output->type)
    return hasten_refuse(call, "it does not take these element types");
  const int is_float = a->type == HASTEN_FLOAT32;
  if (!is_float && has_zero(b)) return hasten_refuse(call, "a division by 0");
  if (hasten_elements(output, 0, output->rank) == 0) return 0;
  plan_walk(a, b, output, &walk);
  compute(&walk, walk.rank - 1, a->data, b->data, output->data);
  /* A division by 0 is never easy, so that most divisors need no look. */
  if (is_float && !is_modulus && walk.was_hard && has_zero(b)) return hasten_refuse(call, "a division by 0");
  return 0;
}

int hasten_floor_div_shapes(HastenCall* call) { return broadcast_shapes(call); }
int hasten_floor_mod_shapes(HastenCall* call) { return broadcast_shapes(call); }
int hasten_floor_div_run(HastenCall* call) { return run(call, 0); }
int hasten_floor_mod_run(HastenCall* call) { return run(call, 1); }
