#include "engine/execute/probe.h"

#include <cstring>
#include <nlohmann/json.hpp>
#include <ostream>

#include "base/document.h"
#include "base/status.h"
#include "engine/execute/child.h"
#include "engine/execute/onnx_model.h"

namespace fermata::engine {
namespace {

Json to_json(const std::vector<FileTensor>& tensors) {
  Json list = Json::array();
  for (const FileTensor& tensor : tensors) {
    Json symbols = Json::array();
    for (const std::string& symbol : tensor.symbols) {
      symbols.push_back(symbol.empty() ? Json() : Json(symbol));
    }
    list.push_back({{"name", tensor.name},
                    {"datatype", std::string(name(tensor.datatype))},
                    {"shape", tensor.shape},
                    {"symbols", symbols}});
  }
  return list;
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
  for (const Reader& dim : fields["shape"].list()) {
    tensor.shape.push_back(dim.integer(-1, int64_t{1} << 53));
  }
  for (const Reader& symbol : fields["symbols"].list()) {
    tensor.symbols.push_back(symbol.is_null() ? "" : symbol.string());
  }
  return tensor;
}

FileSignature read_signature(Reader reader) {
  ObjectReader fields = reader.object();
  FileSignature signature;
  for (const Reader& input : fields["inputs"].list())
    signature.inputs.push_back(read_tensor(input));
  for (const Reader& output : fields["outputs"].list(1)) {
    signature.outputs.push_back(read_tensor(output));
  }
  return signature;
}

}  // namespace

absl::Status print_signature(const std::string& file, double memory_mb, std::ostream& out) {
  limit_this_process({.memory_mb = memory_mb});
  const auto model = OnnxModel::load(file, {});
  if (!model.ok()) return of_limited(model.status(), memory_mb);
  out << write_json({{"inputs", to_json((*model)->signature().inputs)},
                     {"outputs", to_json((*model)->signature().outputs)}});
  return absl::OkStatus();
}

absl::StatusOr<FileSignature> probe_model(const std::string& program, const std::string& file,
                                          const TrialLimits& limits) {
  ASSIGN_OR_RETURN(
      const ChildResult child,
      run_child({program, "probe-model", file, fmt::format("{}", limits.memory_mb)}, limits.time));
  if (child.timed_out) {
    return invalid("{}: reading it took longer than {:.0f} s", file, limits.time.seconds());
  }
  if (child.signal != 0) {
    return invalid("{}: reading it crashed ({}): not a sound model", file, strsignal(child.signal));
  }
  if (child.exit_code != 0) {
    return invalid("{}",
                   child.error.empty() ? fmt::format("{}: cannot be read", file) : child.error);
  }
  ASSIGN_OR_RETURN(Document document, Document::parse(child.output, Document::Format::kJson));
  return document.read(read_signature);
}

}  // namespace fermata::engine
