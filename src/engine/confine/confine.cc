#include "engine/confine/confine.h"

#include <fcntl.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "base/status.h"

namespace fermata::engine {
namespace {

#ifdef __x86_64__
constexpr uint32_t kMachine = AUDIT_ARCH_X86_64, kForeignCalls = 0x40000000;  // of x32
#else
constexpr uint32_t kMachine = AUDIT_ARCH_AARCH64, kForeignCalls = 0xFFFFFFFF;
#endif

constexpr uint32_t kDenied = SECCOMP_RET_ERRNO | EPERM, kMissing = SECCOMP_RET_ERRNO | ENOSYS;
constexpr uint32_t kWrites = O_WRONLY | O_RDWR | O_CREAT | O_TRUNC | (O_TMPFILE & ~O_DIRECTORY);

// What changes files, starts or touches processes, or opens what is no file.
constexpr auto kNever = std::to_array<uint32_t>({
#ifdef __NR_open  // calls that only older machines have
    __NR_creat,
    __NR_mkdir,
    __NR_rmdir,
    __NR_rename,
    __NR_link,
    __NR_symlink,
    __NR_unlink,
    __NR_mknod,
    __NR_chmod,
    __NR_chown,
    __NR_lchown,
    __NR_fork,
    __NR_vfork,
    __NR_utime,
    __NR_utimes,
#endif
    __NR_mkdirat,
    __NR_renameat2,
    __NR_linkat,
    __NR_symlinkat,
    __NR_unlinkat,
    __NR_mknodat,
#ifdef __NR_renameat
    __NR_renameat,
#endif
    __NR_fchmod,
    __NR_fchmodat,
    __NR_fchown,
    __NR_fchownat,
    __NR_truncate,
    __NR_utimensat,
    __NR_setxattr,
    __NR_lsetxattr,
    __NR_fsetxattr,
    __NR_socket,
    __NR_memfd_create,
    __NR_tkill,
    __NR_rt_sigqueueinfo,
    __NR_rt_tgsigqueueinfo,
    __NR_pidfd_send_signal,
    __NR_pidfd_getfd,
    __NR_ptrace,
    __NR_process_vm_readv,
    __NR_process_vm_writev,
    __NR_kcmp,
    __NR_bpf,
    __NR_perf_event_open,
    __NR_userfaultfd,
    __NR_io_uring_setup,
    __NR_unshare,
    __NR_setns,
    __NR_mount,
    __NR_umount2,
    __NR_pivot_root,
    __NR_chroot,
    __NR_setpgid,
    __NR_setsid,
    __NR_keyctl,
    __NR_add_key,
    __NR_shmget,
    __NR_msgget,
    __NR_mq_open});

absl::Status denied() {
  return error(absl::StatusCode::kUnavailable,
               "the system denies a filter of system calls (seccomp): {}", strerror(errno));
}

class Filter {
 public:
  Filter() {
    load(offsetof(seccomp_data, arch));
    if_is(kMachine, 1);
    answer(kDenied);
    load_call();
    if_below(kForeignCalls, 1);
    answer(kDenied);
  }
  void load(size_t offset) {
    code_.push_back(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, static_cast<uint32_t>(offset)));
  }
  void load_call() { load(offsetof(seccomp_data, nr)); }
  void load_argument(size_t i) { load(offsetof(seccomp_data, args) + i * sizeof(uint64_t)); }
  void answer(uint32_t what) { code_.push_back(BPF_STMT(BPF_RET | BPF_K, what)); }
  // Skips so many of what follows unless it is `value`.
  void unless_is(uint32_t value, uint8_t skip) {
    code_.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, skip));
  }
  // Skips so many of what follows if it is `value`, or below it.
  void if_is(uint32_t value, uint8_t skip) {
    code_.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, skip, 0));
  }
  void if_below(uint32_t value, uint8_t skip) {
    code_.push_back(BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, value, 0, skip));
  }
  void for_call(uint32_t call, uint32_t what) {
    unless_is(call, 1);
    answer(what);
  }
  // Of a call: `what` where some of these bits of an argument are set, or where none are.
  void for_bits(uint32_t call, size_t argument, uint32_t bits, bool set, uint32_t what) {
    unless_is(call, 4);
    load_argument(argument);
    code_.push_back(BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, bits, set ? uint8_t{0} : uint8_t{1},
                             set ? uint8_t{1} : uint8_t{0}));
    answer(what);
    answer(SECCOMP_RET_ALLOW);
  }
  // Of a call: `what` where its first argument is this.
  void for_first(uint32_t call, uint32_t value, uint32_t what) {
    unless_is(call, 4);
    load_argument(0);
    unless_is(value, 1);
    answer(what);
    load_call();
  }
  // Of a call: denied unless its first argument is one of the two.
  void only_for(uint32_t call, uint32_t value, uint32_t other) {
    unless_is(call, 5);
    load_argument(0);
    code_.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 2, 0));
    code_.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, other, 1, 0));
    answer(kDenied);
    answer(SECCOMP_RET_ALLOW);
  }
  // What else is asked for is allowed. With a descriptor of those who ask to be notified of.
  absl::StatusOr<int> install(unsigned flags = 0) {
    answer(SECCOMP_RET_ALLOW);
    const sock_fprog program{static_cast<uint16_t>(code_.size()), code_.data()};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return denied();
    const auto installed = flags == 0
                               ? prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)
                               : syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program);
    if (installed < 0) return denied();
    return static_cast<int>(installed);
  }

 private:
  std::vector<sock_filter> code_;
};

// Who is root and may do nothing that others may not, but for reading the models' files.
void drop_privileges() {
  for (int privilege = 0; privilege < 64; ++privilege) {
    if (privilege != CAP_DAC_READ_SEARCH) prctl(PR_CAPBSET_DROP, privilege, 0, 0, 0);
  }
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  std::array<__user_cap_data_struct, 2> own{};
  if (syscall(SYS_capget, &header, own.data()) != 0) return;
  constexpr uint32_t kKept = 1U << CAP_DAC_READ_SEARCH;
  own[0] = {own[0].effective & kKept, own[0].permitted & kKept, 0};
  own[1] = {0, 0, 0};
  syscall(SYS_capset, &header, own.data());
}

// Reads no memory of others of the same user, which files of /proc are that a filter of calls
// cannot tell from other files, and signals none but its own copies: where the kernel has Landlock,
// of signals since Linux 6.12. That wants a rule about files: here about one that nobody may make.
void part_from_others() {
  struct {
    uint64_t files = LANDLOCK_ACCESS_FS_MAKE_BLOCK, network = 0;
    uint64_t names_and_signals = 1 | 2;  // LANDLOCK_SCOPE_*, which not every header has
  } rules;
  const auto version = syscall(SYS_landlock_create_ruleset, nullptr, size_t{0},
                               uint32_t{LANDLOCK_CREATE_RULESET_VERSION});
  if (version < 1 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return;
  const size_t known = version >= 6 ? sizeof(rules) : version >= 4 ? 16 : 8;
  const auto ruleset =
      static_cast<int>(syscall(SYS_landlock_create_ruleset, &rules, known, uint32_t{0}));
  if (ruleset < 0) return;
  (void)syscall(SYS_landlock_restrict_self, ruleset, uint32_t{0});
  close(ruleset);
}

absl::StatusOr<int> confine(bool is_copied) {
  drop_privileges();
  part_from_others();
  const auto self = static_cast<uint32_t>(getpid());
  Filter filter;
  filter.for_call(__NR_futex, SECCOMP_RET_ALLOW);  // by far the most
  for (const uint32_t call : kNever) filter.for_call(call, kDenied);
  filter.for_call(__NR_clone3, kMissing);  // the library takes clone then
  filter.for_call(__NR_openat2, kMissing);
  if (is_copied) filter.for_first(__NR_clone, kCopyFlags, SECCOMP_RET_USER_NOTIF);
  filter.for_bits(__NR_clone, 0, CLONE_THREAD, false, kDenied);
  filter.for_bits(__NR_openat, 2, kWrites, true, kDenied);
#ifdef __NR_open
  filter.for_bits(__NR_open, 1, kWrites, true, kDenied);
#endif
  if (!is_copied) {
    filter.only_for(__NR_kill, self, self);
    filter.only_for(__NR_tgkill, self, self);
    filter.only_for(__NR_prlimit64, self, 0);
    return filter.install();
  }
  // Each of them has another number.
  filter.for_call(__NR_kill, kDenied);
  filter.for_first(__NR_tgkill, static_cast<uint32_t>(getppid()), kDenied);
  filter.only_for(__NR_prlimit64, 0, 0);
  return filter.install(SECCOMP_FILTER_FLAG_NEW_LISTENER);
}

}  // namespace

// And no ring of io_uring, which opens sockets too.
absl::Status deny_internet() {
  Filter filter;
  filter.for_call(__NR_io_uring_setup, kDenied);
  filter.only_for(__NR_socket, AF_UNIX, AF_NETLINK);
  return filter.install().status();
}

absl::Status confine_to_serving() { return confine(false).status(); }

absl::StatusOr<int> confine_to_copying() { return confine(true); }

}  // namespace fermata::engine
