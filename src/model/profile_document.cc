#include <charconv>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/document.h"
#include "base/status.h"
#include "model/confusion_document.h"
#include "model/profile.h"

namespace fermata {
namespace {

constexpr int64_t kMaxBatch = 1 << 20;

LinearFit read_linear_fit(Reader reader) {
  ObjectReader fields = reader.object();
  return {{fields["alpha"].number(), fields["beta"].number()}, fields["error"].non_negative()};
}

QuadraticFit read_quadratic_fit(Reader reader) {
  ObjectReader fields = reader.object();
  return {{fields["a"].number(), fields["b"].number(), fields["c"].number()},
          fields["error"].non_negative()};
}

BatchProfile read_batch(Reader reader) {
  ObjectReader fields = reader.object();
  BatchProfile batch;
  batch.runs = static_cast<uint32_t>(fields["runs"].integer(1, kMaxBatch));
  batch.p50_ms = fields["p50_ms"].positive();
  batch.p90_ms = fields["p90_ms"].positive();
  batch.p99_ms = fields["p99_ms"].positive();
  batch.mean_ms = fields["mean_ms"].positive();
  for (const Reader& stage : fields["stages_ms"].optional_list()) {
    batch.stages_ms.push_back(stage.positive());
  }
  return batch;
}

void read_batches(Reader reader, Profile& profile) {
  for (const auto& [name, value] : reader.map()) {
    uint32_t items = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), items);
    if (error != std::errc() || end != name.data() + name.size() || items < 1 ||
        items > kMaxBatch) {
      value.fail("a batch size from 1 as its name");
      return;
    }
    profile.batches[items] = read_batch(value);
  }
  if (profile.batches.empty()) reader.fail("at least one batch size");
}

Shape read_shape(Reader reader) {
  Shape shape;
  for (const Reader& dim : reader.list()) {
    shape.push_back(dim.integer(1, std::numeric_limits<int32_t>::max()));
  }
  return shape;
}

// `accuracy` and `recall` may be stated by hand, without a matrix.
AnswerProfile read_answers(ObjectReader& fields) {
  AnswerProfile answers;
  if (const Reader confusion = fields["confusion"]; confusion.present()) {
    answers.confusion = read_confusion(confusion);
  }
  if (const Reader accuracy = fields["accuracy"]; accuracy.present()) {
    answers.accuracy = accuracy.between(0, 1);
  }
  const Reader recall = fields["recall"];
  for (const Reader& share : recall.optional_list()) {
    answers.recall.push_back(share.is_null() ? std::nullopt : std::optional(share.between(0, 1)));
  }
  const size_t classes = answers.confusion.classes();
  if (classes > 0 && recall.present() && answers.recall.size() != classes) {
    recall.fail("one share for each row of confusion");
  }
  return answers;
}

Profile read_root(Reader reader) {
  ObjectReader fields = reader.object();
  Profile profile;
  fields["format"].integer(Profile::kFormat, Profile::kFormat);
  profile.version = static_cast<uint64_t>(fields["version"].integer(1, 1LL << 53));
  profile.model = fields["model"].string();
  profile.model_version = fields["model_version"].string();
  profile.machine = fields["machine"].string("unknown");
  profile.provider = fields["provider"].string("cpu");
  profile.threads = static_cast<uint32_t>(fields["threads"].integer(1, 4096, 1));
  if (Reader shapes = fields["shapes"]; shapes.present()) {
    for (const auto& [name, value] : shapes.map()) profile.shapes[name] = read_shape(value);
  }
  read_batches(fields["batches"], profile);
  profile.linear = read_linear_fit(fields["linear_ms"]);
  profile.quadratic = read_quadratic_fit(fields["quadratic_ms"]);
  profile.load_ms = fields["load_ms"].non_negative(0);
  profile.memory_mb = fields["memory_mb"].non_negative(0);
  profile.static_mb = fields["static_mb"].between(0, profile.memory_mb, profile.memory_mb);
  profile.answers = read_answers(fields);
  return profile;
}

void write_answers(const AnswerProfile& answers, Json& json) {
  if (answers.confusion.classes() > 0) json.update(confusion_json(answers.confusion));
  if (answers.accuracy) json["accuracy"] = *answers.accuracy;
  if (answers.recall.empty()) return;
  Json& recall = json["recall"] = Json::array();
  for (const auto& share : answers.recall) recall.push_back(share ? Json(*share) : Json());
}

}  // namespace

absl::StatusOr<Profile> parse_profile(std::string_view json, std::string_view source) {
  absl::StatusOr<Document> document = Document::parse(json, Document::Format::kJson);
  if (!document.ok()) return invalid("{}: {}", source, message(document.status()));
  absl::StatusOr<Profile> profile = document->read(read_root);
  if (!profile.ok()) return invalid("{}: {}", source, message(profile.status()));
  return profile;
}

std::string to_json(const Profile& profile) {
  Json json = {{"format", Profile::kFormat}, {"version", profile.version},
               {"model", profile.model},     {"model_version", profile.model_version},
               {"machine", profile.machine}, {"provider", profile.provider},
               {"threads", profile.threads}, {"shapes", Json::object()},
               {"batches", Json::object()}};
  for (const auto& [name, shape] : profile.shapes) json["shapes"][name] = shape;
  for (const auto& [items, batch] : profile.batches) {
    Json& row = json["batches"][std::to_string(items)] = {{"runs", batch.runs},
                                                          {"p50_ms", batch.p50_ms},
                                                          {"p90_ms", batch.p90_ms},
                                                          {"p99_ms", batch.p99_ms},
                                                          {"mean_ms", batch.mean_ms}};
    if (!batch.stages_ms.empty()) row["stages_ms"] = batch.stages_ms;
  }
  const auto& [line, line_error] = profile.linear;
  json["linear_ms"] = {{"alpha", line.alpha_ms}, {"beta", line.beta_ms}, {"error", line_error}};
  const auto& [curve, curve_error] = profile.quadratic;
  json["quadratic_ms"] = {{"a", curve.a}, {"b", curve.b}, {"c", curve.c}, {"error", curve_error}};
  json["load_ms"] = profile.load_ms;
  json["memory_mb"] = profile.memory_mb;
  json["static_mb"] = profile.static_mb;
  write_answers(profile.answers, json);
  return write_json(json);
}

absl::StatusOr<Profile> read_profile(const std::filesystem::path& file) {
  ASSIGN_OR_RETURN(Document document, Document::load(file.string()));
  absl::StatusOr<Profile> profile = document.read(read_root);
  if (!profile.ok()) return invalid("{}: {}", file.string(), message(profile.status()));
  return profile;
}

absl::Status write_profile(const Profile& profile, const std::filesystem::path& file) {
  const std::filesystem::path fresh = file.string() + ".new";
  {
    std::ofstream out(fresh, std::ios::trunc);
    out << to_json(profile);
    out.close();
    if (!out) return invalid("{}: cannot be written", fresh.string());
  }
  std::error_code failed;
  std::filesystem::rename(fresh, file, failed);
  if (failed) return invalid("{}: {}", file.string(), failed.message());
  return absl::OkStatus();
}

}  // namespace fermata
