/* SPDX-License-Identifier: Apache-2.0 */
/* What the C library of today has and the one of 2018 (2.28) has not, for libraries that must load
 * with either. Where the machine's C library has the function, it is called. Linked into each
 * library, hidden. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define HIDDEN __attribute__((visibility("hidden")))

/* Headers of the standard library ask it to leave out atomic instructions. */
HIDDEN char __libc_single_threaded = 0;

typedef int (*clockwait_function)(pthread_cond_t*, pthread_mutex_t*, clockid_t,
                                  const struct timespec*);

/* A wait until a time of another clock; the caller looks at its own clock afterwards. */
static int wait_by_realtime(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock,
                            const struct timespec* until) {
  const long kSecond = 1000000000L;
  struct timespec now, real;
  if (clock_gettime(clock, &now) != 0 || clock_gettime(CLOCK_REALTIME, &real) != 0) return errno;
  real.tv_sec += until->tv_sec - now.tv_sec;
  real.tv_nsec += until->tv_nsec - now.tv_nsec;
  if (real.tv_nsec < 0) {
    real.tv_nsec += kSecond;
    --real.tv_sec;
  } else if (real.tv_nsec >= kSecond) {
    real.tv_nsec -= kSecond;
    ++real.tv_sec;
  }
  return pthread_cond_timedwait(condition, mutex, &real);
}

HIDDEN int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex,
                                  clockid_t clock, const struct timespec* until) {
  static _Atomic(clockwait_function) known;
  clockwait_function function = known;
  if (function == NULL) {
    function = (clockwait_function)dlsym(RTLD_DEFAULT, "pthread_cond_clockwait");
    if (function == NULL) function = wait_by_realtime;
    known = function;
  }
  return function(condition, mutex, clock, until);
}

typedef const char* (*signal_text)(int);

HIDDEN const char* sigabbrev_np(int number) {
  const signal_text function = (signal_text)dlsym(RTLD_DEFAULT, "sigabbrev_np");
  if (function != NULL) return function(number);
  switch (number) {
    case SIGABRT:
      return "ABRT";
    case SIGBUS:
      return "BUS";
    case SIGFPE:
      return "FPE";
    case SIGHUP:
      return "HUP";
    case SIGILL:
      return "ILL";
    case SIGINT:
      return "INT";
    case SIGKILL:
      return "KILL";
    case SIGPIPE:
      return "PIPE";
    case SIGSEGV:
      return "SEGV";
    case SIGSYS:
      return "SYS";
    case SIGTERM:
      return "TERM";
    case SIGTRAP:
      return "TRAP";
    case SIGXCPU:
      return "XCPU";
    case SIGXFSZ:
      return "XFSZ";
    default:
      return NULL;
  }
}

HIDDEN const char* sigdescr_np(int number) {
  const signal_text function = (signal_text)dlsym(RTLD_DEFAULT, "sigdescr_np");
  return function != NULL ? function(number) : NULL;
}

typedef int (*close_range_function)(unsigned, unsigned, int);

/* The kernels of the time (before 5.9) have no such call: there what is open is read from /proc. */
static int close_each(unsigned first, unsigned last, int flags) {
  DIR* open_files;
  struct dirent* entry;
  if (flags != 0 || first > last) {
    errno = EINVAL;
    return -1;
  }
  open_files = opendir("/proc/self/fd");
  if (open_files == NULL) return -1;
  while ((entry = readdir(open_files)) != NULL) {
    char* end = NULL;
    const unsigned long file = strtoul(entry->d_name, &end, 10);
    if (end == entry->d_name || file < first || file > last) continue;
    if ((int)file != dirfd(open_files)) close((int)file);
  }
  return closedir(open_files);
}

HIDDEN int close_range(unsigned first, unsigned last, int flags) {
  const close_range_function function = (close_range_function)dlsym(RTLD_DEFAULT, "close_range");
  if (function != NULL && function(first, last, flags) == 0) return 0;
  if (function != NULL && errno != ENOSYS) return -1;
  return close_each(first, last, flags);
}
