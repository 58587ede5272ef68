/* A clock that jumps or ticks coarsely, for LD_PRELOAD.
   PLANTED_CLOCK=NAME:READINGS:JUMP:STEP: each time that a process has read the clock (realtime or monotonic) so many
   times, it jumps by JUMP milliseconds; it shows only multiples of STEP milliseconds (0: all). */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static int (*system_clock)(clockid_t, struct timespec*);
static clockid_t chosen;
static long readings, every;
static double jump_ms, step_ms;

__attribute__((constructor)) static void read_settings(void) {
  char name[16] = "";
  const char* settings = getenv("PLANTED_CLOCK");
  system_clock = (int (*)(clockid_t, struct timespec*))dlsym(RTLD_NEXT, "clock_gettime");
  if (settings) sscanf(settings, "%15[a-z]:%ld:%lf:%lf", name, &every, &jump_ms, &step_ms);
  chosen = name[0] == 'm' ? CLOCK_MONOTONIC : CLOCK_REALTIME;
}

int clock_gettime(clockid_t clock, struct timespec* time) {
  const int status = system_clock(clock, time);
  if (status || clock != chosen) return status;
  long long now = time->tv_sec * 1000000000LL + time->tv_nsec;
  if (every > 0) now += ++readings / every * (long long)(jump_ms * 1e6);
  if (step_ms > 0) now -= now % (long long)(step_ms * 1e6);
  time->tv_sec = now / 1000000000LL;
  time->tv_nsec = now % 1000000000LL;
  return status;
}
