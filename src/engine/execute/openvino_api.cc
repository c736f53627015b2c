#include "engine/execute/openvino_api.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <filesystem>
#include <mutex>
#include <string_view>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/check.h"
#include "base/status.h"

namespace fermata::engine {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kLibrary = "libopenvino_c.so";
constexpr std::string_view kInstall =
    "install it (pip install openvino) and name its folder in workers.openvino, such as "
    "venv/lib/python3.11/site-packages/openvino";

// In the order of DataType, as a model's text has them.
constexpr std::array<std::string_view, 14> kTypeNames = {"boolean", "u8",  "u16", "u32",   "u64",
                                                         "i8",      "i16", "i32", "i64",   "f16",
                                                         "bf16",    "f32", "f64", "string"};

const OpenVino* g_openvino = nullptr;

// Of the package's version: libopenvino_c.so.2641.
std::string library_in(const fs::path& folder) {
  std::vector<std::string> found;
  std::error_code failed;
  for (fs::directory_iterator it(folder, failed), end; !failed && it != end; it.increment(failed)) {
    if (it->path().filename().string().starts_with(kLibrary)) found.push_back(it->path().string());
  }
  return found.empty() ? "" : *absl::c_max_element(found);
}

// Where packages of PyPI, Intel and Debian have it, below what was named.
std::string library_below(const fs::path& named) {
  std::error_code failed;
  if (fs::is_regular_file(named, failed)) return named.string();
  std::vector<fs::path> folders = {named, named / "libs", named / "openvino/libs",
                                   named / "runtime/lib/intel64", named / "runtime/lib/aarch64"};
  for (fs::directory_iterator it(named / "lib", failed), end; !failed && it != end;
       it.increment(failed)) {
    folders.push_back(it->path() / "site-packages/openvino/libs");
  }
  for (const fs::path& folder : folders) {
    if (std::string library = library_in(folder); !library.empty()) return library;
  }
  return "";
}

absl::StatusOr<void*> open_library(const std::string& where) {
  std::string file;
  if (!where.empty()) {
    file = library_below(where);
    if (file.empty()) {
      return invalid("workers.openvino is '{}', which has no {}: {}", where, kLibrary, kInstall);
    }
  }
  for (const char* usual : {"/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64",
                            "/usr/local/lib", "/opt/intel/openvino/runtime/lib/intel64"}) {
    if (file.empty()) file = library_in(usual);
  }
  if (file.empty()) file = kLibrary;  // as LD_LIBRARY_PATH has it
  if (void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL); library != nullptr) {
    return library;
  }
  const char* const why = dlerror();
  if (file == kLibrary) return invalid("OpenVINO is not here: {}", kInstall);
  return invalid("OpenVINO cannot be opened: {}", why == nullptr ? file : why);
}

absl::Status find_functions(void* library, OpenVino& found) {
  std::string missing;
  const auto find = [&](const char* name, auto& function) {
    function = reinterpret_cast<std::decay_t<decltype(function)>>(dlsym(library, name));
    if (function == nullptr && missing.empty()) missing = name;
  };
  find("ov_get_last_err_msg", found.last_error);
  find("ov_free", found.free);
  find("ov_core_create", found.core_create);
  find("ov_core_read_model", found.core_read);
  find("ov_core_read_model_from_memory_buffer", found.core_read_text);
  find("ov_core_compile_model", found.core_compile);
  find("ov_model_inputs_size", found.model_inputs);
  find("ov_model_outputs_size", found.model_outputs);
  find("ov_model_const_input_by_index", found.model_input);
  find("ov_model_const_output_by_index", found.model_output);
  find("ov_port_get_any_name", found.port_name);
  find("ov_port_get_element_type", found.port_type);
  find("ov_port_get_partial_shape", found.port_shape);
  find("ov_partial_shape_free", found.free_shape);
  find("ov_compiled_model_create_infer_request", found.compiled_request);
  find("ov_infer_request_set_input_tensor_by_index", found.request_set_input);
  find("ov_infer_request_get_output_tensor_by_index", found.request_get_output);
  find("ov_infer_request_infer", found.request_infer);
  find("ov_tensor_create_from_host_ptr", found.tensor_over);
  find("ov_tensor_get_shape", found.tensor_shape);
  find("ov_tensor_get_byte_size", found.tensor_bytes);
  find("ov_tensor_data", found.tensor_data);
  find("ov_shape_free", found.free_dims);
  find("ov_output_const_port_free", found.free_port);
  find("ov_model_free", found.free_model);
  find("ov_compiled_model_free", found.free_compiled);
  find("ov_infer_request_free", found.free_request);
  find("ov_tensor_free", found.free_tensor);
  if (missing.empty()) return absl::OkStatus();
  return invalid("this OpenVINO has no {}: expected 2024.0 or later", missing);
}

// A model that hands on an input of every type. Its ports need a precision, which nothing reads.
std::string model_of_all_types() {
  std::string layers, edges;
  for (size_t i = 0; i < kTypeNames.size(); ++i) {
    layers += fmt::format(
        R"(<layer id="{0}" name="i{0}" type="Parameter" version="opset1"><data shape="1" element_type="{2}"/><output><port id="0" precision="FP32"><dim>1</dim></port></output></layer>
<layer id="{1}" name="o{0}" type="Result" version="opset1"><input><port id="0" precision="FP32"><dim>1</dim></port></input></layer>
)",
        i, i + kTypeNames.size(), kTypeNames[i]);
    edges += fmt::format(R"(<edge from-layer="{}" from-port="0" to-layer="{}" to-port="0"/>)", i,
                         i + kTypeNames.size());
  }
  return fmt::format(
      R"(<?xml version="1.0"?><net name="types" version="11"><layers>{}</layers><edges>{}</edges></net>)",
      layers, edges);
}

absl::Status learn_types(OpenVino& opened) {
  const std::string text = model_of_all_types();
  OvModel* raw = nullptr;
  RETURN_IF_ERROR(
      openvino_status(opened.core_read_text(opened.core, text.data(), text.size(), nullptr, &raw)));
  const OvPtr<OvModel> model(raw);
  for (size_t i = 0; i < kTypeNames.size(); ++i) {
    OvPort* port = nullptr;
    RETURN_IF_ERROR(openvino_status(opened.model_input(raw, i, &port)));
    const OvPtr<OvPort> owned(port);
    RETURN_IF_ERROR(openvino_status(opened.port_type(port, &opened.types[i])));
  }
  return absl::OkStatus();
}

absl::Status open_into(const std::string& where, OpenVino& opened) {
  ASSIGN_OR_RETURN(void* library, open_library(where));
  RETURN_IF_ERROR(find_functions(library, opened));
  g_openvino = &opened;
  RETURN_IF_ERROR(openvino_status(opened.core_create(&opened.core)));
  return learn_types(opened);
}

// Without the places in the library's own sources: "Exception from src/core.cpp:115:\nCheck 'x'
// failed at src/model.cpp:20:\nWhy".
std::string openvino_reason(std::string_view text) {
  std::string reason;
  for (absl::string_view line : absl::StrSplit(absl::string_view(text.data(), text.size()), '\n')) {
    line = absl::StripAsciiWhitespace(line);
    const bool place = absl::EndsWith(line, ":") &&
                       (absl::StrContains(line, ".cpp:") || absl::StrContains(line, ".hpp:"));
    if (line.empty() || place) continue;
    if (!reason.empty()) reason += ' ';
    reason.append(line.data(), line.size());
  }
  return reason.empty() ? std::string(text) : reason;
}

}  // namespace

absl::StatusOr<const OpenVino*> open_openvino(const std::string& where) {
  static std::mutex mutex;
  static auto& opened = *new OpenVino;
  static absl::Status failed = absl::OkStatus();
  static bool tried = false;
  const std::lock_guard lock(mutex);
  if (!std::exchange(tried, true)) failed = open_into(where, opened);
  RETURN_IF_ERROR(failed);
  return &opened;
}

const OpenVino& openvino() {
  FERMATA_CHECK(g_openvino != nullptr);
  return *g_openvino;
}

absl::Status openvino_status(int code) {
  if (code == 0) return absl::OkStatus();
  const char* const text = openvino().last_error();
  const std::string reason = text == nullptr || *text == '\0'
                                 ? fmt::format("OpenVINO answers {}", code)
                                 : openvino_reason(text);
  if (!absl::StrContains(reason, "alloc")) return invalid("{}", reason);
  return error(absl::StatusCode::kResourceExhausted, "{}", reason);
}

std::optional<DataType> from_openvino(uint32_t type) {
  const auto& types = openvino().types;
  const auto it = absl::c_find(types, type);
  if (it == types.end()) return std::nullopt;
  return static_cast<DataType>(it - types.begin());
}

}  // namespace fermata::engine
