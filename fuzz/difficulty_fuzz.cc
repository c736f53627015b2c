// The document of an ensemble's difficulty: what it says is read, or refused in one line; what was
// read is sound and writes back to the same.
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/check.h"
#include "base/status.h"
#include "estimate/difficulty_document.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace fermata;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto profile = estimate::parse_difficulty(text, "f.json");
  if (!profile.ok()) {
    FERMATA_CHECK(message(profile.status()).find('\n') == std::string_view::npos);
    return 0;
  }
  for (const auto* measure : {&profile->discrepancy, &profile->agreement}) {
    const estimate::SubsetProfile& subsets = measure->profile;
    FERMATA_CHECK(subsets.expected().size() == size_t{1} << profile->models.size());
    for (const double score : {0.0, 0.5, 1.0}) FERMATA_CHECK(subsets.of(score)[0] == 0);
  }
  const std::string written = write_json(estimate::difficulty_json(*profile));
  const auto again = estimate::parse_difficulty(written, "again.json");
  FERMATA_CHECK(again.ok() && write_json(estimate::difficulty_json(*again)) == written);
  return 0;
}
