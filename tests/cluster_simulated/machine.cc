// The C library's functions for threads, locks and clocks, as the simulated world has them; where
// there is none, the library's own. They stand before those for all that is linked with this, so
// that the parts run as they are.
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdlib>

#include "cluster_simulated/world.h"

namespace {

using fermata::Duration;
using fermata::Time;
using fermata::simulated::World;

template <class Function>
Function* library(Function*, const char* name) {
  void* found = dlsym(RTLD_NEXT, name);
  if (found == nullptr) abort();
  return reinterpret_cast<Function*>(found);
}

World* world() { return World::current(); }

Time time_of(const timespec& at) {
  return Time() + Duration::seconds(at.tv_sec) + Duration::nanos(at.tv_nsec);
}
// When this process's clock shows it.
Time when(const timespec& at) { return world()->process().when(time_of(at)); }

// An unlocked one is as the library has it: these words are all 0.
int& held(pthread_mutex_t* mutex) { return mutex->__data.__lock; }
bool is_own_again(pthread_mutex_t* mutex) {
  const auto self = static_cast<int>(reinterpret_cast<uintptr_t>(world()->self()) >> 4);
  const bool again = mutex->__data.__kind == PTHREAD_MUTEX_RECURSIVE && held(mutex) != 0 &&
                     mutex->__data.__owner == self;
  if (!again) mutex->__data.__owner = self;
  return again;
}

int lock(pthread_mutex_t* mutex) {
  world()->maybe_give_way();
  if (held(mutex) != 0 && mutex->__data.__kind == PTHREAD_MUTEX_RECURSIVE && is_own_again(mutex)) {
    ++mutex->__data.__count;
    return 0;
  }
  while (held(mutex) != 0) world()->wait(mutex);
  held(mutex) = 1;
  is_own_again(mutex);
  return 0;
}

int unlock(pthread_mutex_t* mutex) {
  if (mutex->__data.__count > 0) {
    --mutex->__data.__count;
    return 0;
  }
  held(mutex) = 0;
  mutex->__data.__owner = 0;
  world()->wake(mutex, 1);
  return 0;
}

int wait_on(pthread_cond_t* condition, pthread_mutex_t* mutex, Time until) {
  unlock(mutex);
  const bool woken = world()->wait(condition, until);
  lock(mutex);
  return woken || until.is_infinite() ? 0 : ETIMEDOUT;
}

long futex(const uint32_t* word, int operation, uint32_t value, const timespec* limit) {
  const int command = operation & FUTEX_CMD_MASK;
  if (command == FUTEX_WAKE || command == FUTEX_WAKE_BITSET) {
    world()->wake(word, value);
    return 0;
  }
  if (__atomic_load_n(word, __ATOMIC_SEQ_CST) != value) {
    errno = EAGAIN;
    return -1;
  }
  Time until = Time::infinite();
  if (limit != nullptr && command == FUTEX_WAIT) {
    until = world()->now() + (time_of(*limit) - Time());
  } else if (limit != nullptr) {
    until = when(*limit);
  }
  if (world()->wait(word, until)) return 0;
  errno = ETIMEDOUT;
  return -1;
}

}  // namespace

#define FERMATA_LIBRARY(name) static auto* const own = library(&name, #name)

extern "C" {

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*work)(void*),
                   void* argument) noexcept {
  FERMATA_LIBRARY(pthread_create);
  if (world() == nullptr) return own(thread, attributes, work, argument);
  *thread = reinterpret_cast<pthread_t>(world()->start(world()->process(), work, argument));
  return 0;
}
int pthread_join(pthread_t thread, void** result) {
  FERMATA_LIBRARY(pthread_join);
  if (world() == nullptr) return own(thread, result);
  void* const got = world()->join(reinterpret_cast<World::Thread*>(thread));
  if (result != nullptr) *result = got;
  return 0;
}
int pthread_detach(pthread_t thread) noexcept {
  FERMATA_LIBRARY(pthread_detach);
  return world() == nullptr ? own(thread) : 0;
}
int pthread_setaffinity_np(pthread_t thread, size_t size, const cpu_set_t* set) noexcept {
  FERMATA_LIBRARY(pthread_setaffinity_np);
  return world() == nullptr ? own(thread, size, set) : 0;
}

int pthread_mutex_lock(pthread_mutex_t* mutex) noexcept {
  FERMATA_LIBRARY(pthread_mutex_lock);
  return world() == nullptr ? own(mutex) : lock(mutex);
}
int pthread_mutex_trylock(pthread_mutex_t* mutex) noexcept {
  FERMATA_LIBRARY(pthread_mutex_trylock);
  if (world() == nullptr) return own(mutex);
  if (held(mutex) != 0) return EBUSY;
  held(mutex) = 1;
  is_own_again(mutex);
  return 0;
}
int pthread_mutex_unlock(pthread_mutex_t* mutex) noexcept {
  FERMATA_LIBRARY(pthread_mutex_unlock);
  return world() == nullptr ? own(mutex) : unlock(mutex);
}
int pthread_cond_wait(pthread_cond_t* condition, pthread_mutex_t* mutex) {
  FERMATA_LIBRARY(pthread_cond_wait);
  if (world() == nullptr) return own(condition, mutex);
  return wait_on(condition, mutex, Time::infinite());
}
int pthread_cond_timedwait(pthread_cond_t* condition, pthread_mutex_t* mutex, const timespec* at) {
  FERMATA_LIBRARY(pthread_cond_timedwait);
  if (world() == nullptr) return own(condition, mutex, at);
  return wait_on(condition, mutex, when(*at));
}
int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock,
                           const timespec* at) {
  FERMATA_LIBRARY(pthread_cond_clockwait);
  if (world() == nullptr) return own(condition, mutex, clock, at);
  return wait_on(condition, mutex, when(*at));
}
int pthread_cond_signal(pthread_cond_t* condition) noexcept {
  FERMATA_LIBRARY(pthread_cond_signal);
  if (world() == nullptr) return own(condition);
  world()->wake(condition, 1);
  return 0;
}
int pthread_cond_broadcast(pthread_cond_t* condition) noexcept {
  FERMATA_LIBRARY(pthread_cond_broadcast);
  if (world() == nullptr) return own(condition);
  world()->wake(condition);
  return 0;
}
int pthread_cond_destroy(pthread_cond_t* condition) noexcept {
  FERMATA_LIBRARY(pthread_cond_destroy);
  return world() == nullptr ? own(condition) : 0;
}

int sched_yield() noexcept {
  FERMATA_LIBRARY(sched_yield);
  if (world() == nullptr) return own();
  world()->sleep(world()->now() + Duration::micros(1));  // it may be the only one that can run
  return 0;
}
int clock_gettime(clockid_t clock, timespec* to) noexcept {
  FERMATA_LIBRARY(clock_gettime);
  if (world() == nullptr) return own(clock, to);
  world()->clock_is_read();
  const int64_t shown = world()->process().clock(world()->now()).nanos();
  *to = {.tv_sec = shown / 1'000'000'000, .tv_nsec = shown % 1'000'000'000};
  return 0;
}
int nanosleep(const timespec* length, timespec* left) {
  FERMATA_LIBRARY(nanosleep);
  if (world() == nullptr) return own(length, left);
  world()->sleep(world()->now() + (time_of(*length) - Time()));
  return 0;
}

long syscall(long number, ...) noexcept {
  va_list more;
  va_start(more, number);
  long a[6];
  for (long& each : a) each = va_arg(more, long);
  va_end(more);
  if (number == SYS_futex && world() != nullptr) {
    return futex(reinterpret_cast<const uint32_t*>(a[0]), static_cast<int>(a[1]),
                 static_cast<uint32_t>(a[2]), reinterpret_cast<const timespec*>(a[3]));
  }
  FERMATA_LIBRARY(syscall);
  return own(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

// Locks of files are those of the process that took them.
int fcntl(int file, int command, ...) {
  va_list more;
  va_start(more, command);
  void* const argument = va_arg(more, void*);
  va_end(more);
  FERMATA_LIBRARY(fcntl);
  if (world() != nullptr && command == F_OFD_SETLK) world()->process().files.push_back(file);
  return own(file, command, argument);
}

int fdatasync(int file) {
  FERMATA_LIBRARY(fdatasync);
  return world() == nullptr ? own(file) : 0;
}

}  // extern "C"
