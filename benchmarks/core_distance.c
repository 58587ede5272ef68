// How long a line of cache takes from one core to another and back, in nanoseconds: `core_distance FIRST SECOND`.
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { TRIPS = 20000, REPEATS = 9 };
static _Alignas(128) atomic_int ball;
static int cores[2];

static void pin(int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(core, &set);
  sched_setaffinity(0, sizeof set, &set);
}

static void *answer(void *unused) {
  pin(cores[1]);
  for (int i = 0; i < TRIPS; i++) {
    while (atomic_load_explicit(&ball, memory_order_acquire) != 2 * i + 1) {
    }
    atomic_store_explicit(&ball, 2 * i + 2, memory_order_release);
  }
  return unused;
}

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static int ascending(const void *one, const void *other) {
  double first = *(const double *)one, second = *(const double *)other;
  return (first > second) - (first < second);
}

int main(int count, char **arguments) {
  if (count != 3) return 2;
  cores[0] = atoi(arguments[1]);
  cores[1] = atoi(arguments[2]);
  pin(cores[0]);
  double trips[REPEATS];
  for (int repeat = 0; repeat < REPEATS; repeat++) {
    atomic_store(&ball, 0);
    pthread_t other;
    if (pthread_create(&other, NULL, answer, NULL)) return 1;
    double begin = seconds();
    for (int i = 0; i < TRIPS; i++) {
      atomic_store_explicit(&ball, 2 * i + 1, memory_order_release);
      while (atomic_load_explicit(&ball, memory_order_acquire) != 2 * i + 2) {
      }
    }
    trips[repeat] = (seconds() - begin) / TRIPS * 1e9;
    pthread_join(other, NULL);
  }
  qsort(trips, REPEATS, sizeof *trips, ascending);
  printf("%.0f\n", trips[REPEATS / 2]);
  return 0;
}
