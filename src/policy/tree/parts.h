#pragma once

#include <cstdint>

#include "policy/tree/chooser.h"

namespace fermata::policy {

// Requests of more items than one task of a service may have: as many parts as that needs, whose
// answers are joined. The first part that is rejected or fails ends them all.
class PartsChooser final : public Chooser {
 public:
  // most >= 1: items of one part.
  PartsChooser(ServiceId service, uint32_t most) : service_(service), most_(most) {}

  void arrived(Node& node, Time now, ServiceTree& tree) override;
  void ended(Node& node, uint32_t child, Ending how, Time now, ServiceTree& tree) override;
  Ahead ahead(uint32_t items, Time now, const ServiceTree& tree) const override;

 private:
  const ServiceId service_;
  const uint32_t most_;
};

}  // namespace fermata::policy
