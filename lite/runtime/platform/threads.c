/* SPDX-License-Identifier: Apache-2.0
 * A pool of POSIX threads. Each has a range of the tasks, the same part of every run, so that what
 * it wrote in one op is in its cache when it reads it in the next; then it takes from the others'.
 * One run at a time: further callers wait.
 *
 * A thread that waits looks for some tens of microseconds before it sleeps: the ops of a network
 * follow each other faster than a sleeping thread wakes. */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "xrt_lite.h"

typedef struct thread_pool thread_pool;

typedef struct member {
  _Alignas(64) atomic_int next; /* first task of its range that nobody has taken */
  int32_t index, end;
  thread_pool* pool;
  pthread_t handle;
} member;

struct thread_pool {
  xrt_lite_threads threads; /* first: what the caller holds */
  pthread_mutex_t one_run, mutex;
  pthread_cond_t begin, done;
  void (*task)(void*, int32_t);
  void* argument;
  int32_t started;
  atomic_uint generation; /* changed under `mutex` */
  atomic_int busy, stop;
  member members[]; /* the first is the caller */
};

static void work(thread_pool* p, int32_t index) {
  const int32_t members = p->started + 1;
  for (int32_t k = 0; k < members; ++k) {
    member* m = &p->members[(index + k) % members];
    for (int32_t i; (i = atomic_fetch_add(&m->next, 1)) < m->end;) p->task(p->argument, i);
  }
}

enum { LOOKS = 1000 };

static void pause_briefly(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("isb");
#endif
}

/* The next run's number, or `seen` where the pool ends. */
static uint32_t wait_for_run(thread_pool* p, uint32_t seen) {
  for (int32_t i = 0; i < LOOKS; ++i) {
    const uint32_t generation = atomic_load_explicit(&p->generation, memory_order_acquire);
    if (generation != seen) return generation;
    pause_briefly();
  }
  pthread_mutex_lock(&p->mutex);
  while (atomic_load(&p->generation) == seen && !atomic_load(&p->stop)) {
    pthread_cond_wait(&p->begin, &p->mutex);
  }
  const uint32_t generation = atomic_load(&p->generation);
  pthread_mutex_unlock(&p->mutex);
  return generation;
}

static void wait_for_others(thread_pool* p) {
  for (int32_t i = 0; i < LOOKS; ++i) {
    if (atomic_load_explicit(&p->busy, memory_order_acquire) == 0) return;
    pause_briefly();
  }
  pthread_mutex_lock(&p->mutex);
  while (atomic_load(&p->busy) > 0) pthread_cond_wait(&p->done, &p->mutex);
  pthread_mutex_unlock(&p->mutex);
}

static void* loop(void* argument) {
  const member* me = (const member*)argument;
  thread_pool* p = me->pool;
  uint32_t seen = 0;
  for (;;) {
    const uint32_t generation = wait_for_run(p, seen);
    if (generation == seen) return NULL;
    seen = generation;
    work(p, me->index);
    if (atomic_fetch_sub(&p->busy, 1) == 1) {
      pthread_mutex_lock(&p->mutex);
      pthread_cond_signal(&p->done);
      pthread_mutex_unlock(&p->mutex);
    }
  }
}

static void run(void* pool, void (*task)(void*, int32_t), void* argument, int32_t count) {
  thread_pool* p = (thread_pool*)pool;
  pthread_mutex_lock(&p->one_run);
  p->task = task;
  p->argument = argument;
  const int32_t members = p->started + 1;
  for (int32_t i = 0; i < members; ++i) {
    atomic_store(&p->members[i].next, (int32_t)((int64_t)count * i / members));
    p->members[i].end = (int32_t)((int64_t)count * (i + 1) / members);
  }
  atomic_store(&p->busy, p->started);
  pthread_mutex_lock(&p->mutex);
  atomic_fetch_add_explicit(&p->generation, 1, memory_order_release);
  pthread_cond_broadcast(&p->begin);
  pthread_mutex_unlock(&p->mutex);
  work(p, 0);
  wait_for_others(p);
  pthread_mutex_unlock(&p->one_run);
}

xrt_lite_threads* xrt_lite_threads_create(int32_t count) {
  if (count < 1 || count > 1024) return NULL;
  const size_t bytes = sizeof(thread_pool) + (size_t)count * sizeof(member);
  thread_pool* p = (thread_pool*)aligned_alloc(_Alignof(thread_pool), bytes);
  if (p == NULL) return NULL;
  memset(p, 0, bytes);
  pthread_mutex_init(&p->one_run, NULL);
  pthread_mutex_init(&p->mutex, NULL);
  pthread_cond_init(&p->begin, NULL);
  pthread_cond_init(&p->done, NULL);
  p->threads.run = run;
  p->threads.pool = p;
  while (p->started < count - 1) {
    member* m = &p->members[p->started + 1];
    m->pool = p;
    m->index = p->started + 1;
    if (pthread_create(&m->handle, NULL, loop, m) != 0) break;
    ++p->started;
  }
  p->threads.count = p->started + 1;
  return &p->threads;
}

void xrt_lite_threads_destroy(xrt_lite_threads* threads) {
  if (threads == NULL) return;
  thread_pool* p = (thread_pool*)threads->pool;
  pthread_mutex_lock(&p->mutex);
  atomic_store(&p->stop, 1);
  pthread_cond_broadcast(&p->begin);
  pthread_mutex_unlock(&p->mutex);
  for (int32_t i = 1; i <= p->started; ++i) pthread_join(p->members[i].handle, NULL);
  pthread_cond_destroy(&p->begin);
  pthread_cond_destroy(&p->done);
  pthread_mutex_destroy(&p->mutex);
  pthread_mutex_destroy(&p->one_run);
  free(p);
}
