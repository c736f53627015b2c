#include "engine/onnx/divide_trap.h"

#include <dlfcn.h>
#include <link.h>
#include <ucontext.h>

#include <atomic>
#include <csignal>
#include <optional>

namespace fermata::engine {
namespace {

std::atomic<uint64_t> g_traps{0};
thread_local uint64_t t_traps = 0;

#ifdef __x86_64__

uintptr_t g_begin = 0, g_end = 0;  // of the library's code; set before the handler

// Intel's manual, volume 2: optional prefixes, opcode F6 or F7, ModRM with /6 (DIV) or /7 (IDIV).
struct Division {
  size_t length = 0;
  bool bytes = false;  // AX by a byte: the remainder is in AH, not in RDX
};

std::optional<Division> division_at(const uint8_t* code) {
  const uint8_t* at = code;
  if (*at == 0x66) ++at;
  if ((*at & 0xF0) == 0x40) ++at;  // REX
  if (*at != 0xF6 && *at != 0xF7) return std::nullopt;
  const bool bytes = *at++ == 0xF6;
  const uint8_t modrm = *at++;
  const int mod = modrm >> 6, kind = modrm >> 3 & 7, rm = modrm & 7;
  if (kind != 6 && kind != 7) return std::nullopt;
  int displacement = mod == 1 ? 1 : mod == 2 ? 4 : 0;
  if (mod != 3 && rm == 4) {
    const uint8_t sib = *at++;
    if (mod == 0 && (sib & 7) == 5) displacement = 4;
  } else if (mod == 0 && rm == 5) {
    displacement = 4;
  }
  return Division{static_cast<size_t>(at - code) + static_cast<size_t>(displacement), bytes};
}

// Leaves the dividend's lower half as the quotient, and no remainder.
void on_trap(int signal, siginfo_t* info, void* context) {
  auto& registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
  const auto at = static_cast<uintptr_t>(registers[REG_RIP]);
  if (at >= g_begin && at < g_end) {
    if (const auto division = division_at(reinterpret_cast<const uint8_t*>(at))) {
      registers[REG_RIP] += static_cast<greg_t>(division->length);
      if (division->bytes) {
        registers[REG_RAX] &= ~greg_t{0xFF00};
      } else {
        registers[REG_RDX] = 0;
      }
      ++t_traps;
      g_traps.fetch_add(1, std::memory_order_relaxed);
      return;
    }
  }
  std::signal(signal, SIG_DFL);                // and the same instruction again
  if (info->si_code <= 0) std::raise(signal);  // or what somebody has sent
}

int find_code(dl_phdr_info* info, size_t, void* wanted) {
  const auto at = reinterpret_cast<uintptr_t>(wanted);
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const auto& segment = info->dlpi_phdr[i];
    const uintptr_t begin = info->dlpi_addr + segment.p_vaddr, end = begin + segment.p_memsz;
    if (segment.p_type != PT_LOAD || at < begin || at >= end) continue;
    g_begin = begin;
    g_end = end;
    return 1;
  }
  return 0;
}

#endif

}  // namespace

void catch_integer_divisions_of([[maybe_unused]] const void* inside) {
#ifdef __x86_64__
  if (dl_iterate_phdr(find_code, const_cast<void*>(inside)) == 0) return;
  struct sigaction action {};
  action.sa_sigaction = on_trap;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGFPE, &action, nullptr);
#endif
}

DivideTraps::DivideTraps(bool whole_process) : whole_process_(whole_process), before_(count()) {}

uint64_t DivideTraps::count() const {
  return whole_process_ ? g_traps.load(std::memory_order_relaxed) : t_traps;
}

}  // namespace fermata::engine
