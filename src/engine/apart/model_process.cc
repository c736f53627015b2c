#include "engine/apart/model_process.h"

#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>

#include "absl/algorithm/container.h"
#include "absl/functional/function_ref.h"
#include "base/clock.h"
#include "base/status.h"
#include "engine/apart/area.h"
#include "engine/apart/control.h"
#include "engine/apart/record.h"
#include "engine/confine/nursery.h"
#include "engine/execute/backend.h"
#include "engine/execute/by_variant.h"
#include "engine/onnx/onnx_model.h"
#include "engine/threads/give_way_to_all.h"
#include "engine/threads/periodic.h"
#include "engine/trial/made_up.h"

namespace fermata::engine::apart {
namespace {

constexpr Duration kMemoryLook = Duration::seconds(2);

using Known = ByVariant<const Variant>;  // which are loaded, by any of the slots

// Runs what one of the server's workers asks, on a thread that lives as long as the process.
class Slot {
 public:
  Slot(const Area& area, uint32_t number, Known& known, std::unique_ptr<ModelRunner> runner)
      : area_(area), number_(number), known_(known), runner_(std::move(runner)) {
    thread_ = std::thread([this] { loop(); });
    thread_.detach();
  }

  ModelRunner& runner() { return *runner_; }
  void pin(const std::vector<uint32_t>& processors) {
    cpu_set_t set;
    CPU_ZERO(&set);
    for (const uint32_t processor : processors) CPU_SET(processor, &set);
    (void)sched_setaffinity(thread_id_, sizeof(set), &set);
    runner_->pin(processors);
  }

 private:
  [[noreturn]] void loop() {
    thread_id_ = gettid();
    SlotHead& head = area_.slot(number_);
    ShortWait wait, roused;
    for (uint32_t done = 0;;) {
      const uint32_t asked = load_word(&head.asked);
      if (asked == done) {
        if (!look(asked_of(head), done, area_.look(), wait)) {
          futex_wait(&head.asked, asked, Time::infinite());
          // Roused: the batch is being written.
          if (load_word(&head.asked) == done) look(asked_of(head), done, area_.look(), roused);
        }
        continue;
      }
      run(asked);
      done = asked;
      tell(answered_of(head), asked);
    }
  }

  void run(uint32_t number) {
    const Time start = monotonic_now();
    std::vector<StageRun> stages;
    std::vector<Written> written;
    absl::StatusOr<std::vector<Tensor>> outputs = run_asked(stages);
    absl::Status status = outputs.status();
    if (outputs.ok()) status = put(*outputs, written);
    if (!status.ok()) written.clear();
    write_reply(number, status, written, stages, monotonic_now() - start, area_.reply(number_));
  }

  absl::StatusOr<std::vector<Tensor>> run_asked(std::vector<StageRun>& stages) {
    ASSIGN_OR_RETURN(const Request request, read_request(area_.request(number_)));
    variant_ = known_.find(VariantId(request.variant));
    if (variant_ == nullptr) return internal("variant {} is not loaded", request.variant);
    const Signature& signature = variant_->signature;
    std::vector<OnnxInput> inputs;
    for (const Request::Input& input : request.inputs) {
      if (input.tensor >= signature.inputs.size()) return internal("there is no such input");
      const TensorSpec& spec = signature.inputs[input.tensor];
      inputs.push_back(
          {&spec.name, spec.datatype, input.shape, area_.at(input.offset, input.bytes)});
    }
    wanted_ = request.outputs;
    std::vector<std::string> names;
    for (const uint32_t output : request.outputs) {
      if (output >= signature.outputs.size()) return internal("there is no such output");
      names.push_back(signature.outputs[output].name);
    }
    return runner_->run({variant_->id, &inputs, &names, request.to_the_end}, stages);
  }

  absl::Status put(const std::vector<Tensor>& outputs, std::vector<Written>& written) {
    const absl::Span<std::byte> room = area_.outputs(number_);
    size_t used = 0;
    for (size_t i = 0; i < outputs.size(); ++i) {
      const absl::Span<const std::byte> bytes = outputs[i].data.bytes;
      used = (used + kAlignment - 1) / kAlignment * kAlignment;
      if (used > room.size() || bytes.size() > room.size() - used) {
        return error(absl::StatusCode::kResourceExhausted,
                     "the outputs take more than the {} MiB that a worker's process has for them",
                     room.size() >> 20);
      }
      if (!bytes.empty()) std::memcpy(room.data() + used, bytes.data(), bytes.size());
      written.push_back({wanted_[i], &outputs[i], area_.offset_of(room.data() + used)});
      used += bytes.size();
    }
    return absl::OkStatus();
  }

  const Area& area_;
  const uint32_t number_;
  Known& known_;
  const std::unique_ptr<ModelRunner> runner_;
  std::atomic<pid_t> thread_id_{0};
  std::shared_ptr<const Variant> variant_;  // of the run under way
  std::vector<uint32_t> wanted_;
  std::thread thread_;
};

Json said(const absl::Status& status) {
  if (status.ok()) return {{"ok", true}};
  return {{"ok", false},
          {"code", static_cast<uint32_t>(status.code())},
          {"error", std::string(message(status))}};
}

// That this process, or the one that it is a copy of, has opened before it had any thread.
std::unique_ptr<ModelRunners>& opened_before() {
  static auto* const runners = new std::unique_ptr<ModelRunners>;
  return *runners;
}

// What it answers is nobody's: a model may refuse what is made up.
void run_once(const Variant& variant, ModelRunner& runner) {
  const std::vector<Tensor> made =
      made_up_inputs(variant, item_shapes(variant, {}, 1), MadeUp::kZeros, {0});
  std::vector<OnnxInput> inputs;
  for (const TensorSpec& spec : variant.signature.inputs) {
    if (spec.optional) continue;
    const Tensor& tensor = made[inputs.size()];
    inputs.push_back({&spec.name, spec.datatype, tensor.shape, tensor.data.bytes});
  }
  std::vector<std::string> outputs;
  for (const TensorSpec& spec : variant.signature.outputs) outputs.push_back(spec.name);
  std::vector<StageRun> stages;
  (void)runner.run({variant.id, &inputs, &outputs, /*to_the_end=*/true}, stages);
}

// On a thread of its own if quietly, since a thread cannot take back what it has given up.
absl::Status maybe_quietly(bool quietly, absl::FunctionRef<absl::Status()> work) {
  if (!quietly) return work();
  absl::Status done;
  std::thread([&] {
    give_way_to_all();
    done = work();
  }).join();
  return done;
}

class Process {
 public:
  explicit Process(const Area& area) : area_(area) {}

  absl::Status load(std::string_view line) {
    ASSIGN_OR_RETURN(const LoadRequest request, read_load(line));
    RETURN_IF_ERROR(backend_of(request.variant->config).probe(request.worker));
    if (slots_.empty()) {
      runners_ = std::move(opened_before());
      if (runners_ == nullptr) runners_ = make_runners(request.worker);
      for (uint32_t k = 0; k < area_.slots(); ++k) {
        slots_.push_back(std::make_unique<Slot>(area_, k, known_, runners_->make()));
      }
    }
    RETURN_IF_ERROR(load_into_slots(request));
    known_.put(request.variant->id, request.variant);
    return absl::OkStatus();
  }

  void unload(VariantId id) {
    known_.remove(id);
    for (const auto& slot : slots_) slot->runner().unload(id);
  }

  Slot* slot(uint32_t k) { return k < slots_.size() ? slots_[k].get() : nullptr; }

 private:
  absl::Status load_into_slots(const LoadRequest& request) {
    return maybe_quietly(request.how.quietly, [&] {
      absl::Status loaded;
      for (const auto& slot : slots_) loaded.Update(slot->runner().load(request.variant));
      if (loaded.ok() && request.how.warm && request.variant->tried) {
        for (const auto& slot : slots_) run_once(*request.variant, slot->runner());
      }
      return loaded;
    });
  }

  const Area& area_;
  Known known_;
  std::unique_ptr<ModelRunners> runners_;
  std::vector<std::unique_ptr<Slot>> slots_;
};

absl::Status serve(const Area& area, Lines& lines) {
  auto& process = *new Process(area);                 // threads use it until the process ends
  new Periodic(kMemoryLook, give_back_model_memory);  // as long
  RETURN_IF_ERROR(lines.write(said(absl::OkStatus())));
  while (true) {
    const absl::StatusOr<std::string> line = lines.read(Time::infinite());
    if (!line.ok()) return absl::OkStatus();  // the server has gone, or wants it to
    const Json asked = Json::parse(*line, nullptr, false);
    if (!asked.is_object()) return invalid("a control message is no object: {}", *line);
    const std::string op = asked.value("op", "");
    Slot* const slot = process.slot(asked.value("slot", 0u));
    if (op == "load") {
      RETURN_IF_ERROR(lines.write(said(process.load(*line))));
    } else if (op == "unload") {
      process.unload(VariantId(asked.value("variant", 0u)));
      RETURN_IF_ERROR(lines.write(said(absl::OkStatus())));
    } else if (op == "stop") {
      if (slot != nullptr) slot->runner().terminate();
    } else if (op == "pin") {
      if (slot != nullptr) slot->pin(asked.value("processors", std::vector<uint32_t>()));
    } else {
      RETURN_IF_ERROR(lines.write(said(unimplemented("there is no '{}'", op))));
    }
  }
}

// What the other program reads from its standard input: no file that may be gone.
absl::Status give_program(std::string_view name) {
  const absl::Span<const Backend> all = backends();
  const auto known = absl::c_find_if(all, [&](const Backend& b) { return b.name == name; });
  if (known == all.end() || known->program == nullptr) return absl::OkStatus();
  const int file = file_in_memory(known->program());
  if (file < 0 || dup2(file, STDIN_FILENO) < 0) {
    return internal("cannot make a file in memory: {}", strerror(errno));
  }
  close(file);
  return absl::OkStatus();
}

}  // namespace

absl::Status open_for_copies(std::string_view text) {
  ASSIGN_OR_RETURN(const LoadRequest request, read_load(text));
  prctl(PR_SET_NAME, "opened-model");
  ChildLimits limits{.processor_s = 0};
  if (request.memory_mb) limits.memory_mb = *request.memory_mb;
  ASSIGN_OR_RETURN(const int listener, limit_for_copies(limits));
  RETURN_IF_ERROR(let_server_decide(listener));
  opened_before() = make_runners(request.worker);
  RETURN_IF_ERROR(maybe_quietly(request.how.quietly, [&request] {
    return opened_before()->open(*request.variant).status();
  }));
  malloc_trim(0);  // what reading it took is not for copies to have
  return absl::OkStatus();
}

absl::Status check_model_process() {
  RETURN_IF_ERROR(Area::make(1, 1, 1, Duration()).status());
  return limit_this_process({.processor_s = 0, .confined = true});
}

absl::Status be_model_process(const ModelProcessOptions& options) {
  prctl(PR_SET_NAME, "model-process");
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // of the thread that started it, which lives as long
  RETURN_IF_ERROR(give_program(options.backend));
  if (absl::Status limited = limit_this_process(options.limits); !limited.ok()) {
    (void)Lines(kControlFd).write(said(limited));
    return limited;
  }
  if (!options.command.empty()) {
    std::vector<char*> arguments;
    for (const std::string& word : options.command) {
      arguments.push_back(const_cast<char*>(word.c_str()));
    }
    arguments.push_back(nullptr);
    execvp(arguments[0], arguments.data());
    return internal("cannot start {}: {}", options.command[0], strerror(errno));
  }
  ASSIGN_OR_RETURN(const Area area, Area::adopt(kAreaFd));
  show_life(area);
  Lines lines(kControlFd);
  return serve(area, lines);
}

}  // namespace fermata::engine::apart
