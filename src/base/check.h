#pragma once

#include <cstdio>
#include <cstdlib>

// A broken invariant stops the program, in release builds too.
#define FERMATA_CHECK(condition)                                                             \
  do {                                                                                       \
    if (!(condition)) [[unlikely]] {                                                         \
      std::fprintf(stderr, "%s:%d: broken invariant: %s\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                                          \
    }                                                                                        \
  } while (false)
