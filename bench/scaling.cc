// What one client can make the server do, at a size: every entry of a scheduler with each kind of
// service, every parser. bench/scaling.py counts the instructions of it at n, 2n and 4n.
//   bench_scaling          prints the cases, each with a size to begin with
//   bench_scaling CASE N   does it once
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <iostream>
#include <queue>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/document.h"
#include "base/random.h"
#include "engine/admission.h"
#include "engine/execute/gather.h"
#include "model/model_config.h"
#include "model/npy.h"
#include "policy/scheduler.h"
#include "serve/grpc/grpc_codec.h"
#include "serve/json/json_request.h"

// What is counted happens in here.
extern "C" __attribute__((noinline)) void measured(const std::function<void()>& work) { work(); }

namespace {

using namespace fermata;
using namespace fermata::policy;

enum class Kind { kPlain, kVariants, kEnsemble };

// A scheduler with one worker and one service, and a clock that the case moves.
class Pool {
 public:
  explicit Pool(Kind kind) : scheduler_(*make_scheduler("fermata")) {
    scheduler_->add_worker(now_, out_);
    std::vector<KeyId> keys;
    for (uint32_t m = 0; m < (kind == Kind::kPlain ? 1 : 3); ++m) {
      keys.push_back(
          scheduler_->add_key({.name = "m" + std::to_string(m),
                               .latency = *LatencyTable::make(LinearLatency{1.0 + m, 4.0 + m}, 16),
                               .variant = VariantId(m)}));
    }
    key_ = keys[0];
    if (kind == Kind::kVariants) {
      VariantsInfo info{.name = "a", .penalty = {plan::PenaltyShape::kStep}, .prior = {0.5, 0.5}};
      for (uint32_t m = 0; m < 3; ++m)
        info.variants.push_back({keys[m], 0.7 + 0.1 * m, {0.9, 0.6}});
      key_ = scheduler_->add_service(info);
    } else if (kind == Kind::kEnsemble) {
      key_ = scheduler_->add_service(
          EnsembleInfo{.name = "e",
                       .models = keys,
                       .utility = {{0, 0.9, 0.92, 0.95, 0.93, 0.96, 0.97, 1},
                                   {0, 0.4, 0.5, 0.7, 0.6, 0.8, 0.9, 1}},
                       .share = {0.7, 0.3}});
    }
  }

  // Requests of one item, no two with the same deadline, not in the order of their deadlines.
  void arrive(size_t n, double slo_ms, uint32_t items = 1) {
    Random random(7);
    for (size_t i = 0; i < n; ++i) {
      const Duration budget = Duration::from_millis(slo_ms * (0.5 + random.uniform()));
      tasks_.push_back({JobId(tasks_.size() + 1), key_, now_, now_ + budget, items});
      scheduler_->nominate(tasks_.back(), now_, out_);
      act();
    }
  }
  // In an order that has nothing to do with that of the queue.
  template <class Each>
  void shuffled(Each each) {
    Random random(11);
    std::vector<Task> order = tasks_;
    for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
    for (const Task& task : order) each(task), act();
  }
  void withdraw_all() {
    shuffled([this](const Task& task) { (void)scheduler_->withdraw(task, now_, out_); });
  }
  void learn_all() {
    shuffled([this](const Task& task) {
      scheduler_->learned(task, Evidence{uint32_t(task.job.value() % 5), 2}, now_, out_);
    });
  }
  void score_all() {
    shuffled([this](const Task& task) {
      scheduler_->learned(task, Difficulty{.bin = uint32_t(task.job.value() % 2), .score = 0.5},
                          now_, out_);
    });
  }
  void be_late(double ms) {
    now_ = now_ + Duration::from_millis(ms);
    tick();
  }
  // One after the other, each alone.
  void expire_all() {
    std::sort(tasks_.begin(), tasks_.end(),
              [](const Task& a, const Task& b) { return a.deadline < b.deadline; });
    for (const Task& task : tasks_) {
      now_ = std::max(now_, task.deadline);
      tick();
    }
  }
  // Until nothing waits or runs.
  void serve_all() {
    for (tick(); !running_.empty(); tick()) {
      const auto [end, worker] = running_.top();
      running_.pop();
      now_ = std::max(now_, end);
      scheduler_->freed(worker, now_, out_);
      act();
    }
  }

 private:
  using End = std::pair<Time, WorkerId>;
  void tick() {
    scheduler_->tick(now_, out_);
    act();
  }
  void act() {
    for (const Batch& batch : out_.bound)
      running_.push({std::max(batch.finish, now_), batch.worker});
    out_.clear();
  }

  const std::unique_ptr<Scheduler> scheduler_;
  Decisions out_;
  Time now_ = Time::from_nanos(1'000'000);
  KeyId key_;
  std::vector<Task> tasks_;
  std::priority_queue<End, std::vector<End>, std::greater<End>> running_;
};

std::string repeated(size_t n, const std::function<std::string(size_t)>& each,
                     const char* between = ",") {
  std::string text;
  for (size_t i = 0; i < n; ++i) text += (i > 0 ? between : "") + each(i);
  return text;
}

std::string number(size_t i) { return std::to_string(i); }

void read_json_infer(const std::string& json, std::optional<size_t> length) {
  const auto text = std::make_shared<std::string>(json);
  HeldBytes uncounted;
  (void)serve::decode_json_infer({*text, length, text}, serve::SharedMemory(), uncounted);
}

size_t walk(Reader value) {
  size_t n = 1;
  if (value.is_list()) {
    for (Reader item : value.list()) n += walk(item);
  } else if (value.is_object()) {
    for (const auto& [name, item] : value.map()) n += walk(item);
  }
  return n;
}

void read_document(const std::string& text, Document::Format format) {
  if (absl::StatusOr<Document> document = Document::parse(text, format); document.ok()) {
    (void)document->read(walk);
  }
}

std::string npy(size_t n) {
  std::string head = "{'descr': '<f4', 'fortran_order': False, 'shape': (" + number(n) + ",), }";
  head.resize(117, ' ');
  head += '\n';
  return std::string("\x93NUMPY\x01\x00\x76\x00", 10) + head + std::string(4 * n, '\0');
}

void read_grpc_infer(size_t n,
                     const std::function<void(inference::ModelInferRequest&, size_t)>& add) {
  const auto message = std::make_shared<inference::ModelInferRequest>();
  message->set_model_name("m");
  for (size_t i = 0; i < n; ++i) add(*message, i);
  measured([&] { (void)serve::decode_grpc_infer(message, serve::SharedMemory()); });
}

struct Case {
  std::string name;
  size_t n;
  std::function<void(size_t n)> run;  // calls measured() once
};

void add_scheduler_cases(const std::string& name, Kind kind, size_t n, std::vector<Case>& cases) {
  const auto with_waiting = [kind](size_t count, double slo_ms, const auto& work) {
    Pool pool(kind);
    pool.arrive(count, slo_ms);
    measured([&] { work(pool); });
  };
  constexpr double kRelaxed = 1e7, kTight = 1e3;
  cases.push_back({name + "_nominate", n, [kind](size_t count) {
                     Pool pool(kind);
                     measured([&] { pool.arrive(count, kRelaxed); });
                   }});
  cases.push_back({name + "_withdraw", n, [with_waiting](size_t count) {
                     with_waiting(count, kRelaxed, [](Pool& pool) { pool.withdraw_all(); });
                   }});
  cases.push_back({name + "_drop", n, [with_waiting](size_t count) {
                     with_waiting(count, kTight, [](Pool& pool) { pool.be_late(1e4); });
                   }});
  cases.push_back({name + "_expire", n, [kind](size_t count) {
                     Pool pool(kind);
                     pool.arrive(count / 2, kRelaxed, 2);
                     pool.arrive(count / 2, kTight);
                     measured([&] { pool.expire_all(); });
                   }});
  cases.push_back({name + "_freed", n, [with_waiting](size_t count) {
                     with_waiting(count, kRelaxed, [](Pool& pool) { pool.serve_all(); });
                   }});
  if (kind == Kind::kVariants) {
    cases.push_back({name + "_learned", n, [with_waiting](size_t count) {
                       with_waiting(count, kRelaxed, [](Pool& pool) { pool.learn_all(); });
                     }});
  }
  if (kind == Kind::kEnsemble) {
    cases.push_back({name + "_scored", n, [with_waiting](size_t count) {
                       with_waiting(count, kRelaxed, [](Pool& pool) { pool.score_all(); });
                     }});
  }
}

void add_parser_cases(std::vector<Case>& cases) {
  const auto add = [&cases](const char* name, size_t n, std::function<std::string(size_t)> text,
                            std::function<void(const std::string&)> read) {
    cases.push_back({name, n, [text, read](size_t count) {
                       const std::string made = text(count);
                       measured([&] { read(made); });
                     }});
  };
  const auto json = [](const std::string& text) { read_json_infer(text, std::nullopt); };
  add(
      "json_infer_data", 20'000,
      [](size_t n) {
        return R"({"inputs":[{"name":"x","shape":[)" + number(n) +
               R"(],"datatype":"FP32","data":[)" + repeated(n, number) + "]}]}";
      },
      json);
  add(
      "json_infer_inputs", 2'000,
      [](size_t n) {
        return R"({"inputs":[)" +
               repeated(n,
                        [](size_t i) {
                          return R"({"name":"x)" + number(i) +
                                 R"(","shape":[1],"datatype":"FP32","data":[1]})";
                        }) +
               "]}";
      },
      json);
  add(
      "json_infer_outputs", 1'000,
      [](size_t n) {
        return R"({"inputs":[],"outputs":[)" +
               repeated(n, [](size_t i) { return R"({"name":"y)" + number(i) + "\"}"; }) + "]}";
      },
      json);
  add(
      "json_infer_outputs_again", 5'000,
      [](size_t n) {
        return R"({"inputs":[],)" +
               repeated(n,
                        [](size_t i) { return R"("outputs":[{"name":"y)" + number(i) + "\"}]"; }) +
               "}";
      },
      json);
  add(
      "json_infer_parameters", 5'000,
      [](size_t n) {
        return R"({"parameters":{)" +
               repeated(n, [](size_t i) { return "\"p" + number(i) + "\":1"; }) +
               R"(},"inputs":[]})";
      },
      json);
  add(
      "json_infer_unknown_members", 5'000,
      [](size_t n) {
        return "{" + repeated(n, [](size_t i) { return "\"p" + number(i) + "\":1"; }) + "}";
      },
      json);
  add(
      "json_infer_nested", 5'000,
      [](size_t n) { return R"({"inputs":)" + std::string(n, '[') + std::string(n, ']') + "}"; },
      json);
  add(
      "binary_infer_inputs", 2'000,
      [](size_t n) {
        return R"({"inputs":[)" +
               repeated(
                   n,
                   [](size_t i) {
                     return R"({"name":"x)" + number(i) +
                            R"(","shape":[1],"datatype":"INT8","parameters":{"binary_data_size":1}})";
                   }) +
               "]}" + std::string(n, 'b');
      },
      [](const std::string& text) { read_json_infer(text, text.find_last_not_of('b') + 1); });
  const auto object = [](size_t n) {
    return "{" +
           repeated(
               n, [](size_t i) { return "\"key" + number(i) + "\": [1]"; }, ",\n") +
           "}";
  };
  add("document_json", 5'000, object,
      [](const std::string& text) { read_document(text, Document::Format::kJson); });
  add("document_yaml", 2'000, object,
      [](const std::string& text) { read_document(text, Document::Format::kYaml); });
  add(
      "document_nested", 5'000, [](size_t n) { return std::string(n, '[') + std::string(n, ']'); },
      [](const std::string& text) {
        read_document(text, Document::Format::kJson);
        read_document(text, Document::Format::kYaml);
      });
  add(
      "config_pbtxt", 2'000,
      [](size_t n) {
        return repeated(
            n,
            [](size_t i) {
              return "input { name: 'x" + number(i) +
                     "' data_type: TYPE_FP32 dims: 1 } parameters { key: '" + number(i) +
                     "' value { string_value: 'v' } }";
            },
            "\n");
      },
      [](const std::string& text) { (void)parse_model_config(text, "config"); });
  add("npy", 20'000, npy, [](const std::string& text) { (void)parse_npy(text, "file"); });
  cases.push_back({"grpc_infer_inputs", 2'000, [](size_t count) {
                     read_grpc_infer(count, [](inference::ModelInferRequest& message, size_t i) {
                       auto& input = *message.add_inputs();
                       input.set_name("x" + number(i));
                       input.set_datatype("INT8");
                       input.add_shape(1);
                       message.add_raw_input_contents("b");
                     });
                   }});
  cases.push_back({"grpc_infer_parameters", 2'000, [](size_t count) {
                     read_grpc_infer(count, [](inference::ModelInferRequest& message, size_t i) {
                       (*message.mutable_parameters())["p" + number(i)].set_int64_param(1);
                     });
                   }});
}

// What the engine itself does with a request before and after its batches.
void add_request_cases(std::vector<Case>& cases) {
  cases.push_back({"admit_strings", 5'000, [](size_t n) {
                     Signature signature{.batches = true, .max_batch = 8};
                     signature.inputs.push_back({"x", DataType::kBytes, {1}, {1}});
                     engine::InferRequest request;
                     request.inputs.push_back({"x",
                                               DataType::kBytes,
                                               {static_cast<int64_t>(n), 1},
                                               payload_of(std::vector<uint32_t>(n))});
                     measured([&] { FERMATA_CHECK(engine::admit(request, signature).ok()); });
                   }});
  cases.push_back(
      {"join_parts", 2'000, [](size_t n) {
         const Tensor part{"y", DataType::kFp32, {1, 1}, payload_of(std::vector<float>(1))};
         const std::vector<std::vector<Tensor>> parts(n, {part});
         measured([&] { FERMATA_CHECK(engine::join(parts).ok()); });
       }});
}

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  add_scheduler_cases("plain", Kind::kPlain, 4'000, cases);
  add_scheduler_cases("variants", Kind::kVariants, 1'000, cases);
  add_scheduler_cases("ensemble", Kind::kEnsemble, 250, cases);
  add_request_cases(cases);
  add_parser_cases(cases);
  return cases;
}

}  // namespace

int main(int argc, char** argv) {
  for (const Case& each : all_cases()) {
    if (argc < 3) {
      std::cout << each.name << " " << each.n << "\n";
    } else if (each.name == argv[1]) {
      each.run(std::strtoull(argv[2], nullptr, 10));
      return 0;
    }
  }
  return argc < 3 ? 0 : 1;
}
