#pragma once

#include "policy/hand.h"

namespace fermata::policy {

// A scheduler with services, driven by hand.
struct VariantsHand : Hand {
  using Hand::Hand;

  VariantInfo variant(double alpha_ms, double beta_ms, double accuracy,
                      std::vector<double> recall = {}, uint32_t max_batch = 64, double load_ms = 0,
                      int64_t memory_mb = 0) {
    const uint32_t id = variants++;
    return {scheduler->add_key({.name = "v" + std::to_string(id),
                                .latency = linear(alpha_ms, beta_ms, max_batch),
                                .variant = VariantId(id),
                                .load = Duration::from_millis(load_ms),
                                .memory_bytes = memory_mb << 20}),
            accuracy, std::move(recall)};
  }
  // Of two classes.
  KeyId service(std::vector<VariantInfo> of, plan::Penalty penalty = {plan::PenaltyShape::kStep},
                std::optional<double> short_circuit = std::nullopt) {
    return scheduler->add_service(
        VariantsInfo{"a", std::move(of), penalty, {0.5, 0.5}, short_circuit});
  }
  WorkerId limited_worker(int64_t memory_mb) {
    return scheduler->add_worker(at_ms(0), out, 0, memory_mb << 20);
  }
  void learned(const Task& task, Evidence evidence, double now_ms) {
    scheduler->learned(task, std::move(evidence), at_ms(now_ms), out);
  }
  bool withdraw(const Task& task, double now_ms) {
    return scheduler->withdraw(task, at_ms(now_ms), out);
  }
  uint32_t variants = 0;
};

struct WithSettings : VariantsHand {
  WithSettings(std::string_view policy, const ServiceSettings& settings) : VariantsHand(policy) {
    scheduler = *make_scheduler(policy, settings);
  }
};

}  // namespace fermata::policy
