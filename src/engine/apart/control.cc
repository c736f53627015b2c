#include "engine/apart/control.h"

#include <google/protobuf/util/json_util.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/status.h"
#include "engine/confine/descriptor.h"
#include "model/model_config.h"
#include "model/profile.h"

namespace fermata::engine::apart {
namespace {

constexpr size_t kLongestLine = 16 << 20;
// A process that does not read has stopped to.
constexpr Duration kTelling = Duration::millis(100);

absl::Status closed() {
  return error(absl::StatusCode::kUnavailable, "the other end of the control stream is closed");
}

}  // namespace

bool no_answer(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status);
}

Lines::~Lines() {
  if (fd_ >= 0) close(fd_);
}

absl::Status Lines::write(const Json& message, Time until) {
  const std::string line = message.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  for (size_t done = 0; done < line.size();) {
    const ssize_t n =
        send(fd_, line.data() + done, line.size() - done, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n > 0) {
      done += static_cast<size_t>(n);
    } else if (n < 0 && errno == EAGAIN) {
      if (!await_event(fd_, POLLOUT, until)) {
        return error(absl::StatusCode::kDeadlineExceeded, "the control stream is not read");
      }
    } else if (n == 0 || errno != EINTR) {
      return closed();
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> Lines::read(Time until) {
  while (true) {
    if (const size_t end = buffer_.find('\n'); end != std::string::npos) {
      std::string line = buffer_.substr(0, end);
      buffer_.erase(0, end + 1);
      return line;
    }
    if (buffer_.size() > kLongestLine) return internal("a control message has no end");
    if (!await_event(fd_, POLLIN, until)) {
      return error(absl::StatusCode::kDeadlineExceeded, "no answer came");
    }
    std::array<char, 16384> chunk{};
    const ssize_t n = recv(fd_, chunk.data(), chunk.size(), MSG_DONTWAIT);
    if (n > 0) {
      buffer_.append(chunk.data(), static_cast<size_t>(n));
    } else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
      return closed();
    }
  }
}

absl::StatusOr<Json> Control::answer(Time until) {
  ASSIGN_OR_RETURN(const std::string line, lines_.read(until));
  Json answer = Json::parse(line, nullptr, false);
  if (!answer.is_object() || !answer.contains("ok") || !answer["ok"].is_boolean()) {
    return internal("a model process gave no sound answer");
  }
  if (answer["ok"].get<bool>()) return answer;
  const bool says = answer.contains("error") && answer["error"].is_string();
  absl::Status no(said_code(answer),
                  says ? answer["error"].get<std::string>() : "a model process said no");
  // These are of one that gives no answer (no_answer()).
  if (no_answer(no)) return internal("{}", message(no));
  return no;
}

absl::StatusCode Control::said_code(const Json& answer) {
  if (!answer.contains("code") || !answer["code"].is_number_unsigned()) {
    return absl::StatusCode::kInternal;
  }
  const auto code = answer["code"].get<uint64_t>();
  return code > 0 && code <= 16 ? static_cast<absl::StatusCode>(code) : absl::StatusCode::kInternal;
}

absl::Status Control::hello(Time until) {
  const std::lock_guard lock(asking_);
  return answer(until).status();
}

absl::StatusOr<Json> Control::inquire(const Json& message, Time until) {
  const std::lock_guard lock(asking_);
  {
    const std::lock_guard writing(writing_);
    RETURN_IF_ERROR(lines_.write(message, until));
  }
  return answer(until);
}

void Control::tell(const Json& message) {
  const std::lock_guard lock(writing_);
  (void)lines_.write(message, monotonic_now() + kTelling);
}

namespace {

Json to_json(const std::vector<TensorSpec>& specs) {
  Json list = Json::array();
  for (const TensorSpec& spec : specs) {
    list.push_back({{"name", spec.name},
                    {"datatype", std::string(name(spec.datatype))},
                    {"dims", spec.dims},
                    {"model_dims", spec.model_dims},
                    {"optional", spec.optional},
                    {"any_rank", spec.any_rank}});
  }
  return list;
}

std::vector<TensorSpec> read_specs(const Json& list) {
  std::vector<TensorSpec> specs;
  for (const Json& one : list) {
    specs.push_back(
        {.name = one.at("name"),
         .datatype =
             parse_datatype(one.at("datatype").get<std::string>()).value_or(DataType::kFp32),
         .dims = one.at("dims"),
         .model_dims = one.at("model_dims"),
         .optional = one.at("optional"),
         .any_rank = one.at("any_rank")});
  }
  return specs;
}

}  // namespace

std::string config_text(const inference::ModelConfig& config) {
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  options.always_print_primitive_fields = true;
  std::string text;
  (void)google::protobuf::util::MessageToJsonString(config, &text, options).ok();
  return text;
}

Json load_message(const Variant& variant, const WorkerType& worker, Loading how) {
  const Profile& profile = variant.profile;
  return {{"op", "load"},
          {"variant", variant.id.value()},
          {"weights", variant.loads().value()},
          {"model", variant.model},
          {"version", variant.version},
          {"file", variant.file},
          {"config", config_text(variant.config)},
          {"batches", variant.signature.batches},
          {"max_batch", variant.signature.max_batch},
          {"inputs", to_json(variant.signature.inputs)},
          {"outputs", to_json(variant.signature.outputs)},
          {"tried", variant.tried || profile.measured()},
          {"provider", worker.provider},
          {"threads", worker.threads},
          {"openvino", worker.openvino},
          {"quietly", how.quietly},
          {"warm", how.warm},
          {"profile", profile.measured() ? Json(fermata::to_json(profile)) : Json()}};
}

std::string prepared_message(const Variant& variant, const WorkerType& worker, bool quietly,
                             std::optional<double> memory_mb) {
  Json message = load_message(variant, worker, {.quietly = quietly});
  if (memory_mb) message["memory_mb"] = *memory_mb;
  return message.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// The server is trusted: what it says is as load_message() makes it.
absl::StatusOr<LoadRequest> read_load(std::string_view line) try {
  const Json asked = Json::parse(line);
  auto variant = std::make_shared<Variant>();
  variant->id = VariantId(asked.at("variant").get<uint32_t>());
  variant->weights = VariantId(asked.at("weights").get<uint32_t>());
  variant->model = asked.at("model");
  variant->version = asked.at("version");
  variant->file = asked.at("file");
  ASSIGN_OR_RETURN(variant->config,
                   parse_model_config(asked.at("config").get<std::string>(), "config"));
  variant->signature = {.batches = asked.at("batches"),
                        .max_batch = asked.at("max_batch"),
                        .inputs = read_specs(asked.at("inputs")),
                        .outputs = read_specs(asked.at("outputs"))};
  variant->tried = asked.at("tried");
  if (const Json& profile = asked.at("profile"); profile.is_string()) {
    ASSIGN_OR_RETURN(variant->profile, parse_profile(profile.get<std::string>(), "profile"));
  }
  WorkerType worker;
  worker.provider = asked.at("provider");
  worker.threads = asked.at("threads");
  worker.openvino = asked.at("openvino");
  const Loading how{.quietly = asked.at("quietly"), .warm = asked.at("warm")};
  LoadRequest request{std::move(variant), std::move(worker), how, std::nullopt};
  if (asked.contains("memory_mb")) request.memory_mb = asked.at("memory_mb").get<double>();
  return request;
} catch (const nlohmann::json::exception& wrong) {
  return invalid("not a sound message: {}", wrong.what());
}

}  // namespace fermata::engine::apart
