/* Copying elements of any type: what slices, pads and gathers have in common. */

#ifndef HASTEN_MOVEMENT_H
#define HASTEN_MOVEMENT_H

#include <string.h>

#include "hasten_kernel.h"

/* Copy `count` elements that lie `step` elements apart. A constant size and step is what compilers make fast code of. */
#define HASTEN_COPY_ELEMENTS(T)                                                                    \
  do {                                                                                             \
    T* restrict to = target;                                                                       \
    const T* restrict from = source;                                                               \
    if (step == 1) memcpy(to, from, count * sizeof(T));                                            \
    else if (step == 2) for (size_t i = 0; i < count; ++i) to[i] = from[2 * i];                    \
    else if (step == -1) for (size_t i = 0; i < count; ++i) to[i] = from[-(ptrdiff_t)i];           \
    else for (size_t i = 0; i < count; ++i) to[i] = from[(ptrdiff_t)i * step];                     \
  } while (0)

static inline void hasten_copy_elements(void* target, const void* source, size_t count, ptrdiff_t step, size_t size) {
  switch (size) {
    case 1: HASTEN_COPY_ELEMENTS(uint8_t); break;
    case 2: HASTEN_COPY_ELEMENTS(uint16_t); break;
    case 4: HASTEN_COPY_ELEMENTS(uint32_t); break;
    default: HASTEN_COPY_ELEMENTS(uint64_t); break;
  }
}

/* Copy `count` pieces of `bytes` that lie `step` bytes apart to one place after the other. Small pieces of the usual
   sizes (a pixel of 1 to 4 channels, a few vectors) get loops of their own: a call of memcpy costs more than they do. */
#define HASTEN_COPY_PIECES(N) \
  for (size_t i = 0; i < count; ++i) memcpy(to + i * (N), from + (ptrdiff_t)i * step, (N))

static inline void hasten_copy_pieces(void* target, const void* source, size_t count, ptrdiff_t step, size_t bytes) {
  unsigned char* restrict to = target;
  const unsigned char* restrict from = source;
  switch (bytes) {
    case 3: HASTEN_COPY_PIECES(3); break;
    case 4: HASTEN_COPY_PIECES(4); break;
    case 8: HASTEN_COPY_PIECES(8); break;
    case 12: HASTEN_COPY_PIECES(12); break;
    case 16: HASTEN_COPY_PIECES(16); break;
    case 32: HASTEN_COPY_PIECES(32); break;
    case 64: HASTEN_COPY_PIECES(64); break;
    default: HASTEN_COPY_PIECES(bytes); break;
  }
}

#endif
