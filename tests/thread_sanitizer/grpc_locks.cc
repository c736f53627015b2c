// Tells ThreadSanitizer how gRPC's libraries synchronise. They are not built with it, and lock with
// absl::Mutex, whose futexes and atomics it cannot see; so it takes what their threads hand to each
// other for races. The functions below stand before the libraries' own: each calls the one of the
// library and says what the lock, the queue or the combiner orders. Linked into the tests of the
// preset `tsan` alone. (gRPC 1.51 and Abseil 20220623, as Debian 12 has them; a symbol that another
// version lacks is never called.)

#include <dlfcn.h>
#include <sanitizer/tsan_interface.h>

#include <cstdint>
#include <cstdlib>

namespace {

template <typename Function>
Function* library(Function*, const char* symbol) {
  void* found = dlsym(RTLD_NEXT, symbol);
  if (found == nullptr) {
    abort();
  }
  return reinterpret_cast<Function*>(found);
}

}  // namespace

struct AbslDuration {  // passed as absl::Duration and absl::Time are
  int64_t high;
  uint32_t low;
};

#define FERMATA_LIBRARY(function, symbol) static auto* const real = library(function, symbol)

#define FERMATA_MUTEX_LOCK "_ZN4absl7debian35Mutex4LockEv"
#define FERMATA_MUTEX_UNLOCK "_ZN4absl7debian35Mutex6UnlockEv"
#define FERMATA_MUTEX_TRY_LOCK "_ZN4absl7debian35Mutex7TryLockEv"
#define FERMATA_LOCK_RELEASE "_ZN4absl7debian319ReleasableMutexLock7ReleaseEv"
#define FERMATA_WAIT "_ZN4absl7debian37CondVar4WaitEPNS0_5MutexE"
#define FERMATA_WAIT_FOR "_ZN4absl7debian37CondVar15WaitWithTimeoutEPNS0_5MutexENS0_8DurationE"
#define FERMATA_WAIT_UNTIL "_ZN4absl7debian37CondVar16WaitWithDeadlineEPNS0_5MutexENS0_4TimeE"
#define FERMATA_PUSH "_ZN9grpc_core32MultiProducerSingleConsumerQueue4PushEPNS0_4NodeE"
#define FERMATA_POP "_ZN9grpc_core32MultiProducerSingleConsumerQueue3PopEv"
#define FERMATA_POP_AND_CHECK "_ZN9grpc_core32MultiProducerSingleConsumerQueue14PopAndCheckEndEPb"
#define FERMATA_STATUS_UNREF "_ZN4absl7debian36Status15UnrefNonInlinedEm"
#define FERMATA_CALL_START \
  "_ZN9grpc_core12CallCombiner5StartEP12grpc_closureN4absl7debian36StatusEPKciS7_"
#define FERMATA_CALL_STOP "_ZN9grpc_core12CallCombiner4StopEPKciS2_"

void mutex_lock(void* mutex) __asm__(FERMATA_MUTEX_LOCK);
void mutex_unlock(void* mutex) __asm__(FERMATA_MUTEX_UNLOCK);
bool mutex_try_lock(void* mutex) __asm__(FERMATA_MUTEX_TRY_LOCK);
void lock_release(void** lock) __asm__(FERMATA_LOCK_RELEASE);
void wait_on(void* condition, void* mutex) __asm__(FERMATA_WAIT);
bool wait_for(void* condition, void* mutex, AbslDuration timeout) __asm__(FERMATA_WAIT_FOR);
bool wait_until(void* condition, void* mutex, AbslDuration deadline) __asm__(FERMATA_WAIT_UNTIL);
bool push(void* queue, void* node) __asm__(FERMATA_PUSH);
void* pop(void* queue) __asm__(FERMATA_POP);
void* pop_and_check(void* queue, bool* empty) __asm__(FERMATA_POP_AND_CHECK);
void status_unref(uintptr_t status) __asm__(FERMATA_STATUS_UNREF);
void call_start(void* combiner, void* closure, void* status, const char* file, int line,
                const char* reason) __asm__(FERMATA_CALL_START);
void call_stop(void* combiner, const char* file, int line,
               const char* reason) __asm__(FERMATA_CALL_STOP);

void mutex_lock(void* mutex) {
  FERMATA_LIBRARY(mutex_lock, FERMATA_MUTEX_LOCK);
  real(mutex);
  __tsan_acquire(mutex);
}

void mutex_unlock(void* mutex) {
  FERMATA_LIBRARY(mutex_unlock, FERMATA_MUTEX_UNLOCK);
  __tsan_release(mutex);
  real(mutex);
}

bool mutex_try_lock(void* mutex) {
  FERMATA_LIBRARY(mutex_try_lock, FERMATA_MUTEX_TRY_LOCK);
  const bool taken = real(mutex);
  if (taken) {
    __tsan_acquire(mutex);
  }
  return taken;
}

void lock_release(void** lock) {  // its only member is the mutex
  FERMATA_LIBRARY(lock_release, FERMATA_LOCK_RELEASE);
  __tsan_release(*lock);
  real(lock);
}

void wait_on(void* condition, void* mutex) {
  FERMATA_LIBRARY(wait_on, FERMATA_WAIT);
  __tsan_release(mutex);
  real(condition, mutex);
  __tsan_acquire(mutex);
}

bool wait_for(void* condition, void* mutex, AbslDuration timeout) {
  FERMATA_LIBRARY(wait_for, FERMATA_WAIT_FOR);
  __tsan_release(mutex);
  const bool ended = real(condition, mutex, timeout);
  __tsan_acquire(mutex);
  return ended;
}

bool wait_until(void* condition, void* mutex, AbslDuration deadline) {
  FERMATA_LIBRARY(wait_until, FERMATA_WAIT_UNTIL);
  __tsan_release(mutex);
  const bool ended = real(condition, mutex, deadline);
  __tsan_acquire(mutex);
  return ended;
}

bool push(void* queue, void* node) {
  FERMATA_LIBRARY(push, FERMATA_PUSH);
  __tsan_release(queue);
  return real(queue, node);
}

void* pop(void* queue) {
  FERMATA_LIBRARY(pop, FERMATA_POP);
  void* node = real(queue);
  __tsan_acquire(queue);
  return node;
}

void* pop_and_check(void* queue, bool* empty) {
  FERMATA_LIBRARY(pop_and_check, FERMATA_POP_AND_CHECK);
  void* node = real(queue, empty);
  __tsan_acquire(queue);
  return node;
}

void status_unref(uintptr_t status) {  // a pointer to its count, with the lowest bit set
  FERMATA_LIBRARY(status_unref, FERMATA_STATUS_UNREF);
  auto* const count = reinterpret_cast<void*>(status & ~uintptr_t{1});
  __tsan_release(count);
  __tsan_acquire(count);
  real(status);
}

void call_start(void* combiner, void* closure, void* status, const char* file, int line,
                const char* reason) {
  FERMATA_LIBRARY(call_start, FERMATA_CALL_START);
  __tsan_release(combiner);
  real(combiner, closure, status, file, line, reason);
  __tsan_acquire(combiner);
}

void call_stop(void* combiner, const char* file, int line, const char* reason) {
  FERMATA_LIBRARY(call_stop, FERMATA_CALL_STOP);
  __tsan_acquire(combiner);
  __tsan_release(combiner);
  real(combiner, file, line, reason);
}
