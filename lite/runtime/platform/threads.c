/* SPDX-License-Identifier: Apache-2.0
 * A pool of POSIX threads. Tasks are taken one by one from a shared counter; between runs the
 * threads sleep. One run at a time: further callers wait. */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "xrt_lite.h"

typedef struct thread_pool {
  xrt_lite_threads threads; /* first: what the caller holds */
  pthread_mutex_t one_run, mutex;
  pthread_cond_t begin, done;
  void (*task)(void*, int32_t);
  void* argument;
  int32_t count, busy, stop;
  uint32_t generation;
  atomic_int next;
  int32_t started;
  pthread_t handles[];
} thread_pool;

static void work(thread_pool* p) {
  for (;;) {
    const int32_t i = atomic_fetch_add(&p->next, 1);
    if (i >= p->count) return;
    p->task(p->argument, i);
  }
}

static void* loop(void* argument) {
  thread_pool* p = (thread_pool*)argument;
  uint32_t seen = 0;
  pthread_mutex_lock(&p->mutex);
  for (;;) {
    while (p->generation == seen && !p->stop) pthread_cond_wait(&p->begin, &p->mutex);
    if (p->stop) break;
    seen = p->generation;
    pthread_mutex_unlock(&p->mutex);
    work(p);
    pthread_mutex_lock(&p->mutex);
    if (--p->busy == 0) pthread_cond_signal(&p->done);
  }
  pthread_mutex_unlock(&p->mutex);
  return NULL;
}

static void run(void* pool, void (*task)(void*, int32_t), void* argument, int32_t count) {
  thread_pool* p = (thread_pool*)pool;
  pthread_mutex_lock(&p->one_run);
  pthread_mutex_lock(&p->mutex);
  p->task = task;
  p->argument = argument;
  p->count = count;
  atomic_store(&p->next, 0);
  p->busy = p->started;
  ++p->generation;
  pthread_cond_broadcast(&p->begin);
  pthread_mutex_unlock(&p->mutex);
  work(p);
  pthread_mutex_lock(&p->mutex);
  while (p->busy > 0) pthread_cond_wait(&p->done, &p->mutex);
  pthread_mutex_unlock(&p->mutex);
  pthread_mutex_unlock(&p->one_run);
}

xrt_lite_threads* xrt_lite_threads_create(int32_t count) {
  if (count < 1 || count > 1024) return NULL;
  thread_pool* p =
      (thread_pool*)calloc(1, sizeof(thread_pool) + (size_t)(count - 1) * sizeof(pthread_t));
  if (p == NULL) return NULL;
  pthread_mutex_init(&p->one_run, NULL);
  pthread_mutex_init(&p->mutex, NULL);
  pthread_cond_init(&p->begin, NULL);
  pthread_cond_init(&p->done, NULL);
  p->threads.run = run;
  p->threads.pool = p;
  while (p->started < count - 1) {
    if (pthread_create(&p->handles[p->started], NULL, loop, p) != 0) break;
    ++p->started;
  }
  p->threads.count = p->started + 1;
  return &p->threads;
}

void xrt_lite_threads_destroy(xrt_lite_threads* threads) {
  if (threads == NULL) return;
  thread_pool* p = (thread_pool*)threads->pool;
  pthread_mutex_lock(&p->mutex);
  p->stop = 1;
  pthread_cond_broadcast(&p->begin);
  pthread_mutex_unlock(&p->mutex);
  for (int32_t i = 0; i < p->started; ++i) pthread_join(p->handles[i], NULL);
  pthread_cond_destroy(&p->begin);
  pthread_cond_destroy(&p->done);
  pthread_mutex_destroy(&p->mutex);
  pthread_mutex_destroy(&p->one_run);
  free(p);
}
