#include "cluster_simulated/world.h"

#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/check.h"

namespace fermata::simulated {
namespace {

constexpr size_t kStack = 512 << 10;
constexpr uint32_t kMostReads = 1000;
constexpr Time kBegin = Time::from_nanos(1'000'000'000'000);

// The program's own thread-local variables, which every simulated thread has of its own: they lie
// below what the thread pointer points at, and change places when threads do. (Those of libraries
// are one thread's, as all of this is.)
struct Locals {
  std::byte* place = nullptr;
  size_t size = 0, initialised = 0;
  const std::byte* image = nullptr;

  static const Locals& get() {
    static const Locals locals = [] {
      Locals found;
      dl_iterate_phdr(
          [](dl_phdr_info* info, size_t, void* to) {
            for (int i = 0; i < info->dlpi_phnum; ++i) {
              const auto& header = info->dlpi_phdr[i];
              if (header.p_type != PT_TLS) continue;
              auto& locals = *static_cast<Locals*>(to);
              locals.size = header.p_memsz;
              locals.initialised = header.p_filesz;
              locals.image = reinterpret_cast<const std::byte*>(info->dlpi_addr + header.p_vaddr);
              const size_t align = std::max<size_t>(header.p_align, 1);
              locals.place = static_cast<std::byte*>(__builtin_thread_pointer()) -
                             (locals.size + align - 1) / align * align;
            }
            return 1;  // the program comes first
          },
          &found);
      return found;
    }();
    return locals;
  }
};

}  // namespace

struct World::Thread {
  uint64_t number = 0;
  std::shared_ptr<Process> process;
  ucontext_t context{};
  void* stack = nullptr;
  std::vector<std::byte> locals;
  std::function<void*()> work;
  void* result = nullptr;
  bool over = false, is_ready = false;
  const void* waits = nullptr;  // for what; null: it does not
  Time until;
  uint64_t alarm = 0;  // its number; 0: none is set
  bool woken = false;
};

World* World::current_ = nullptr;

Time Process::when(Time shown) const {
  if (shown.is_infinite()) return Time::infinite();
  const double since = static_cast<double>((shown - Time() - offset).nanos());
  Time at = Time::from_nanos(static_cast<int64_t>(since / rate));
  while (clock(at) < shown) at = at + Duration::nanos(1);
  return at;
}

World::World(uint64_t seed) : random_(seed), now_(kBegin) {
  FERMATA_CHECK(current_ == nullptr);
  current_ = this;
  outside_ = make_process("outside", 0);
  auto& main = threads_.emplace_back(std::make_unique<Thread>());
  main->process = outside_;
  main->locals.resize(Locals::get().size);
  running_ = main.get();
}

World::~World() { current_ = nullptr; }

std::shared_ptr<Process> World::make_process(std::string name, uint32_t place, Duration offset,
                                             double rate) {
  auto& made = processes_.emplace_back(std::make_shared<Process>());
  made->name = std::move(name);
  made->place = place;
  made->offset = offset;
  made->rate = rate;
  return made;
}

Process& World::process() const { return *running_->process; }

void World::kill(Process& process, bool with_host) {
  process.dead = true;
  for (const auto& thread : threads_) {
    if (thread->process.get() != &process || thread->over) continue;
    forget(thread.get());
    thread->over = true;
  }
  if (with_host) return;
  for (const int file : process.files) ::close(file);
  process.files.clear();
}

void World::exit() {
  kill(process());
  switch_away();
  FERMATA_CHECK(false);
  ::abort();
}

void World::go_on(Process& process) { process.stopped = false; }

void World::at(Time when, std::function<void()> event) {
  alarms_.emplace(std::max(when, now_), ++sequence_, nullptr,
                  new std::function<void()>(std::move(event)));
}

World::Thread* World::start(Process& process, void* (*work)(void*), void* argument) {
  return start(process, std::function<void*()>([work, argument] { return work(argument); }));
}

World::Thread* World::start(Process& process, std::function<void*()> work) {
  auto& thread = *threads_.emplace_back(std::make_unique<Thread>());
  thread.number = threads_.size();
  thread.process = process.shared_from_this();
  thread.work = std::move(work);
  const Locals& locals = Locals::get();
  thread.locals.resize(locals.size);
  if (locals.size > 0) std::memcpy(thread.locals.data(), locals.image, locals.initialised);
  if (!ended_.empty() && ended_.back() != running_) {
    thread.stack = std::exchange(ended_.back()->stack, nullptr);
    ended_.pop_back();
  } else {
    thread.stack = ::mmap(nullptr, kStack, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    FERMATA_CHECK(thread.stack != MAP_FAILED);
  }
  ::getcontext(&thread.context);
  thread.context.uc_stack.ss_sp = thread.stack;
  thread.context.uc_stack.ss_size = kStack;
  thread.context.uc_link = nullptr;
  const auto self = reinterpret_cast<uintptr_t>(&thread);
  ::makecontext(&thread.context, reinterpret_cast<void (*)()>(&World::begin), 2,
                static_cast<uint32_t>(self >> 32), static_cast<uint32_t>(self));
  ready(&thread);
  return &thread;
}

void World::begin(uint32_t high, uint32_t low) {
  auto* self = reinterpret_cast<Thread*>(uintptr_t{high} << 32 | low);
  self->result = self->work();
  self->over = true;
  current_->wake(self);
  current_->ended_.push_back(self);
  current_->switch_away();
  FERMATA_CHECK(false);
}

void* World::join(Thread* thread) {
  while (!thread->over) wait(thread);
  return thread->result;
}

void World::ready(Thread* thread) {
  if (thread->over || std::exchange(thread->is_ready, true)) return;
  ready_.push_back(thread);
}

bool World::wait(const void* what, Time until) {
  Thread& self = *running_;
  self.waits = what;
  self.woken = false;
  waiting_[what].push_back(&self);
  if (!until.is_infinite()) {
    self.until = until;
    self.alarm = ++sequence_;
    alarms_.emplace(until, self.alarm, &self, nullptr);
  }
  switch_away();
  return self.woken;
}

void World::sleep(Time until) {
  char nobody = 0;
  wait(&nobody, until);
}

// It waits no more, and its alarm does not ring.
void World::forget(Thread* thread) {
  if (thread->waits != nullptr) {
    const auto found = waiting_.find(thread->waits);
    std::erase(found->second, thread);
    if (found->second.empty()) waiting_.erase(found);
    thread->waits = nullptr;
  }
  if (thread->alarm != 0) alarms_.erase(Alarm{thread->until, thread->alarm, thread, nullptr});
  thread->alarm = 0;
}

void World::wake(const void* what, size_t most) {
  for (size_t i = 0; i < most; ++i) {
    const auto found = waiting_.find(what);
    if (found == waiting_.end()) return;
    Thread* thread = found->second.front();
    forget(thread);
    thread->woken = true;
    ready(thread);
  }
}

void World::give_way() {
  ready(running_);
  switch_away();
}

void World::clock_is_read() {
  if (++reads_ > kMostReads) sleep(now_ + Duration::micros(1));
}

// The next that is not stopped; with a chance to give way, any.
World::Thread* World::next() {
  std::erase_if(ready_, [](const Thread* each) { return each->over; });
  std::vector<size_t> can;
  for (size_t i = 0; i < ready_.size(); ++i) {
    if (ready_[i]->process->stopped) continue;
    can.push_back(i);
    if (chance_ == 0) break;
  }
  if (can.empty()) return nullptr;
  const size_t at = can[can.size() == 1 ? 0 : random_.below(can.size())];
  Thread* thread = ready_[at];
  ready_.erase(ready_.begin() + static_cast<ptrdiff_t>(at));
  return thread;
}

void World::advance() {
  FERMATA_CHECK(!alarms_.empty());  // else all wait for each other
  const auto [at, number, thread, event] = *alarms_.begin();
  alarms_.erase(alarms_.begin());
  now_ = std::max(now_, at);
  if (thread != nullptr) {
    thread->alarm = 0;
    forget(thread);
    ready(thread);
  } else {
    (*event)();
    delete event;
  }
}

void World::switch_away() {
  Thread* self = running_;
  Thread* to = next();
  for (; to == nullptr; to = next()) advance();
  to->is_ready = false;
  reads_ = 0;
  ++switches_;
  mark(to->number);
  mark(static_cast<uint64_t>(now_.nanos()));
  if (to == self) return;
  const Locals& locals = Locals::get();
  if (locals.size > 0) {
    std::memcpy(self->locals.data(), locals.place, locals.size);
    std::memcpy(locals.place, to->locals.data(), locals.size);
  }
  running_ = to;
  ::swapcontext(&self->context, &to->context);
}

}  // namespace fermata::simulated
