#include "engine/trial/trial_document.h"

#include <google/protobuf/util/json_util.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "absl/strings/str_split.h"
#include "base/document.h"
#include "base/status.h"

namespace fermata::engine {
namespace {

// Null for an empty one, which a document's texts are not.
Json to_json(const std::string& text) { return text.empty() ? Json() : Json(text); }
std::string text(const Reader& reader) { return reader.is_null() ? "" : reader.string(); }

Json to_json(const std::vector<FileTensor>& tensors) {
  Json list = Json::array();
  for (const FileTensor& tensor : tensors) {
    Json symbols = Json::array();
    for (const std::string& symbol : tensor.symbols) symbols.push_back(to_json(symbol));
    list.push_back({{"name", tensor.name},
                    {"datatype", std::string(name(tensor.datatype))},
                    {"shape", tensor.shape},
                    {"symbols", symbols},
                    {"any_rank", tensor.any_rank}});
  }
  return list;
}

Shape read_shape(Reader reader) {
  Shape shape;
  for (const Reader& dim : reader.list()) shape.push_back(dim.integer(-1, int64_t{1} << 53));
  return shape;
}

FileTensor read_tensor(Reader reader) {
  ObjectReader fields = reader.object();
  FileTensor tensor;
  tensor.name = fields["name"].string();
  Reader datatype = fields["datatype"];
  if (auto parsed = parse_datatype(datatype.string())) {
    tensor.datatype = *parsed;
  } else {
    datatype.fail("a datatype");
  }
  tensor.shape = read_shape(fields["shape"]);
  for (const Reader& symbol : fields["symbols"].list()) {
    tensor.symbols.push_back(text(symbol));
  }
  tensor.any_rank = fields["any_rank"].boolean();
  return tensor;
}

std::vector<FileTensor> read_tensors(Reader reader) {
  std::vector<FileTensor> tensors;
  for (const Reader& tensor : reader.list()) tensors.push_back(read_tensor(tensor));
  return tensors;
}

FileSignature read_face(Reader reader) {
  ObjectReader fields = reader.object();
  return {read_tensors(fields["inputs"]), read_tensors(fields["outputs"]),
          read_tensors(fields["defaults"])};
}

RowTrial read_rows(Reader reader) {
  ObjectReader fields = reader.object();
  RowTrial rows;
  const auto last = static_cast<int64_t>(RowTrial::Verdict::kUntried);
  rows.verdict = static_cast<RowTrial::Verdict>(fields["verdict"].integer(0, last));
  rows.seen = text(fields["seen"]);
  rows.ran = fields["ran"].boolean();
  return rows;
}

std::string line(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

TrialQuestion question_of(Reader reader, std::string& config) {
  ObjectReader fields = reader.object();
  TrialQuestion question;
  TrialOptions& options = question.options;
  options.file = fields["file"].string();
  options.model = text(fields["model"]);
  options.version = text(fields["version"]);
  config = fields["config"].string();
  options.default_max_batch =
      static_cast<uint32_t>(fields["default_max_batch"].integer(0, int64_t{1} << 31));
  options.max_batch = static_cast<uint32_t>(fields["max_batch"].integer(1, int64_t{1} << 31));
  options.worker.provider = fields["provider"].string();
  options.worker.threads = static_cast<uint32_t>(fields["threads"].integer(1, 1024));
  if (Reader openvino = fields["openvino"]; openvino.present()) {
    options.worker.openvino = openvino.string();
  }
  options.run = fields["run"].boolean();
  options.measure = fields["measure"].boolean();
  for (const Reader& shape : fields["shapes"].list()) {
    ObjectReader own = shape.object();
    options.shapes[own["input"].string()] = read_shape(own["dims"]);
  }
  question.limits.confined = options.worker.provider == "cpu";  // GPUs' libraries open devices
  question.limits.processor_s = fields["processor_s"].positive();
  if (Reader memory = fields["memory_mb"]; memory.present()) {
    question.limits.memory_mb = memory.positive();
  }
  if (Reader quietly = fields["quietly"]; quietly.present()) {
    question.limits.quietly = quietly.boolean();
  }
  return question;
}

}  // namespace

absl::StatusOr<std::string> write_question(const TrialOptions& options, const TrialLimits& limits) {
  std::string config;
  if (!google::protobuf::util::MessageToJsonString(options.config, &config).ok()) {
    return internal("{}: its configuration cannot be written", options.file);
  }
  Json shapes = Json::array();
  for (const auto& [input, dims] : options.shapes) {
    shapes.push_back({{"input", input}, {"dims", dims}});
  }
  Json asked = {{"file", options.file},
                {"model", to_json(options.model)},
                {"version", to_json(options.version)},
                {"config", config},
                {"default_max_batch", options.default_max_batch},
                {"max_batch", options.max_batch},
                {"provider", options.worker.provider},
                {"threads", options.worker.threads},
                {"run", options.run},
                {"measure", options.measure},
                {"shapes", shapes},
                {"processor_s", limits.time.seconds() * options.worker.threads}};
  if (!options.worker.openvino.empty()) asked["openvino"] = options.worker.openvino;
  // GPUs' libraries take more than there is.
  if (options.worker.provider == "cpu" && std::isfinite(limits.memory_mb)) {
    asked["memory_mb"] = limits.memory_mb;
  }
  if (limits.quietly) asked["quietly"] = true;
  return write_json(asked);
}

absl::StatusOr<TrialQuestion> read_question(std::string_view text) {
  ASSIGN_OR_RETURN(Document document, Document::parse(text, Document::Format::kJson));
  std::string config;
  ASSIGN_OR_RETURN(TrialQuestion question, document.read([&config](Reader reader) {
    return question_of(std::move(reader), config);
  }));
  ASSIGN_OR_RETURN(question.options.config, parse_model_config(config, "config"));
  return question;
}

std::string face_line(const FileSignature& face) {
  return line({{"inputs", to_json(face.inputs)},
               {"outputs", to_json(face.outputs)},
               {"defaults", to_json(face.defaults)}});
}

std::string rows_line(const RowTrial& rows) {
  return line({{"verdict", static_cast<int>(rows.verdict)},
               {"seen", to_json(rows.seen)},
               {"ran", rows.ran}});
}

std::string profile_line(const absl::StatusOr<Profile>& profile) {
  if (!profile.ok()) return line({{"unmeasured", std::string(message(profile.status()))}});
  return line({{"profile", fermata::to_json(*profile)}});
}

absl::StatusOr<TrialAnswer> read_answer(std::string_view lines) {
  TrialAnswer answer;
  const std::vector<std::string> texts =
      absl::StrSplit(absl::string_view(lines.data(), lines.size()), '\n', absl::SkipEmpty());
  std::string profile;
  for (size_t i = 0; i < texts.size(); ++i) {
    ASSIGN_OR_RETURN(Document document, Document::parse(texts[i], Document::Format::kJson));
    if (i == 0) {
      ASSIGN_OR_RETURN(answer.trial.face, document.read(read_face));
      answer.has_face = true;
    } else if (i == 1) {
      ASSIGN_OR_RETURN(answer.trial.rows, document.read(read_rows));
    } else {
      ASSIGN_OR_RETURN(profile, document.read([&answer](Reader reader) {
        ObjectReader fields = reader.object();
        if (Reader why = fields["unmeasured"]; why.present())
          answer.trial.unmeasured = why.string();
        Reader measured = fields["profile"];
        return measured.present() ? measured.string() : std::string();
      }));
    }
  }
  if (!profile.empty()) {
    ASSIGN_OR_RETURN(answer.trial.profile, parse_profile(profile, "first runs"));
  }
  return answer;
}

}  // namespace fermata::engine
