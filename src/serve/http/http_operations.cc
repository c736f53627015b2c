#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "base/status.h"
#include "serve/http/http_front_end.h"
#include "serve/json/json_text.h"
#include "serve/json/message_json.h"
#include "serve/json/operation_bodies.h"
#include "serve/operations/settings.h"

namespace fermata::serve {
namespace {

HttpResponse json_response(const Json& body, uint16_t status = 200) {
  HttpResponse response;
  response.status = status;
  response.body = body.dump(-1, ' ', false, Json::error_handler_t::replace);
  return response;
}

HttpResponse response_of(const absl::Status& status) {
  return status.ok() ? HttpResponse{} : error_response(status);
}

template <class Request>
Request named(const HttpRoute& route) {
  Request request;
  request.set_name(route.model);
  request.set_version(route.version);
  return request;
}

// Asks one operation and shows its response as JSON, as it is or one field of it.
template <class Request, class Response>
HttpResponse ask(const Operations& operations, const Request& request, const char* field,
                 absl::Status (Operations::*call)(const Request&, Response&) const) {
  Response response;
  if (const auto status = (operations.*call)(request, response); !status.ok()) {
    return error_response(status);
  }
  Json body = message_to_json(response);
  return json_response(field == nullptr ? body : body[field]);
}

// `body` says whose it is.
HttpResponse readiness_response(const Readiness& readiness, Json body = Json::object()) {
  body["ready"] = readiness.ready;
  if (!readiness.reason.empty()) body["reason"] = readiness.reason;
  return json_response(body, readiness.ready ? 200 : 503);
}

HttpResponse repository_index(const HttpExchange& exchange, const Operations& operations) {
  const auto request = read_index_body(exchange.body());
  if (!request.ok()) return error_response(request.status());
  return ask(operations, *request, "models", &Operations::repository_index);
}

Operations::Done respond_when_done(HttpExchange exchange) {
  return [exchange = std::move(exchange)](absl::Status status) mutable {
    exchange.respond(response_of(status));
  };
}

void load(HttpExchange exchange, const HttpRoute& route, Operations& operations) {
  auto request = read_load_body(exchange.body());
  if (!request.ok()) return exchange.respond(error_response(request.status()));
  request->set_model_name(route.model);
  operations.load(*request, respond_when_done(std::move(exchange)));
}

void unload(HttpExchange exchange, const HttpRoute& route, Operations& operations) {
  auto request = read_unload_body(exchange.body());
  if (!request.ok()) return exchange.respond(error_response(request.status()));
  request->set_model_name(route.model);
  operations.unload(*request, respond_when_done(std::move(exchange)));
}

// A map of a message has no order that holds.
template <class Settings>
auto by_name(const Settings& settings) {
  return std::map<std::string, typename Settings::mapped_type>(settings.begin(), settings.end());
}

// {"trace_level": ["OFF"], "trace_rate": "1000", ...}
HttpResponse show_trace_setting(const HttpExchange& exchange, const HttpRoute& route,
                                const Operations& operations) {
  auto request = read_trace_body(exchange.body());
  if (!request.ok()) return error_response(request.status());
  request->set_model_name(route.model);
  inference::TraceSettingResponse response;
  if (const auto bad = trace_setting(operations, *request, response); !bad.ok()) {
    return error_response(bad);
  }
  Json body = Json::object();
  for (const auto& [name, setting] : by_name(response.settings())) {
    if (name == "trace_level") {
      body[name] = Json::array({setting.value(0)});
    } else {
      body[name] = setting.value(0);
    }
  }
  return json_response(body);
}

// {"log_info": true, "log_verbose_level": 0, "log_file": "", ...}
HttpResponse show_log_settings(const HttpExchange& exchange, const Operations& operations) {
  const auto request = read_log_body(exchange.body());
  if (!request.ok()) return error_response(request.status());
  inference::LogSettingsResponse response;
  if (const auto bad = log_settings(operations, *request, response); !bad.ok()) {
    return error_response(bad);
  }
  Json body = Json::object();
  for (const auto& [name, setting] : by_name(response.settings())) {
    if (setting.has_bool_param()) {
      body[name] = setting.bool_param();
    } else if (setting.has_uint32_param()) {
      body[name] = setting.uint32_param();
    } else {
      body[name] = setting.string_param();
    }
  }
  return json_response(body);
}

HttpResponse memory_status(const HttpRoute& route, const Operations& operations) {
  inference::SystemSharedMemoryStatusRequest request;
  request.set_name(route.region);
  inference::SystemSharedMemoryStatusResponse response;
  if (const auto bad = operations.shared_memory_status(request, response); !bad.ok()) {
    return error_response(bad);
  }
  Json by_name = message_to_json(response)["regions"];
  Json rows = Json::array();
  for (auto& row : by_name) rows.push_back(std::move(row));
  return json_response(rows);
}

absl::Status memory_register(const HttpExchange& exchange, const HttpRoute& route,
                             Operations& operations) {
  ASSIGN_OR_RETURN(auto request, read_register_body(exchange.body()));
  request.set_name(route.region);
  inference::SystemSharedMemoryRegisterResponse response;
  return operations.shared_memory_register(request, response);
}

absl::Status memory_unregister(const HttpRoute& route, Operations& operations) {
  inference::SystemSharedMemoryUnregisterRequest request;
  request.set_name(route.region);
  inference::SystemSharedMemoryUnregisterResponse response;
  return operations.shared_memory_unregister(request, response);
}

HttpResponse wrong_call(const HttpExchange& exchange, const HttpRoute& route) {
  const bool known = route.call == HttpCall::kWrongMethod;
  HttpResponse response;
  response.status = known ? 405 : 404;
  if (known) response.headers.emplace_back("Allow", route.allow);
  const std::string_view path = exchange.target().substr(0, 200);
  response.body = error_body(
      known ? fmt::format("{}: this method is not served here, only {}", path, route.allow)
            : fmt::format("{}: no such path", path));
  return response;
}

HttpResponse answer_now(const HttpExchange& exchange, const HttpRoute& route,
                        Operations& operations) {
  using inference::ModelConfigRequest, inference::ModelMetadataRequest,
      inference::ModelStatisticsRequest;
  switch (route.call) {
    case HttpCall::kServerLive:
      return json_response({{"live", true}});
    case HttpCall::kServerReady:
      return readiness_response(operations.ready());
    case HttpCall::kServerMetadata:
      return ask(operations, inference::ServerMetadataRequest(), nullptr,
                 &Operations::server_metadata);
    case HttpCall::kModelReady:
      return readiness_response(operations.ready(route.model, route.version),
                                {{"name", route.model}});
    case HttpCall::kModelMetadata:
      return ask(operations, named<ModelMetadataRequest>(route), nullptr,
                 &Operations::model_metadata);
    case HttpCall::kModelConfig:
      return ask(operations, named<ModelConfigRequest>(route), "config", &Operations::model_config);
    case HttpCall::kStatistics:
      return ask(operations, named<ModelStatisticsRequest>(route), nullptr,
                 &Operations::model_statistics);
    case HttpCall::kRepositoryIndex:
      return repository_index(exchange, operations);
    case HttpCall::kPlacement:
      return json_response(operations.placement());
    case HttpCall::kDecisions:
      return json_response(operations.decisions());
    case HttpCall::kMemoryStatus:
      return memory_status(route, operations);
    case HttpCall::kMemoryRegister:
      return response_of(memory_register(exchange, route, operations));
    case HttpCall::kMemoryUnregister:
      return response_of(memory_unregister(route, operations));
    case HttpCall::kCudaMemoryStatus:
      return json_response(Json::array());
    case HttpCall::kCudaMemoryRegister:
      return error_response(operations.cuda_memory_register());
    case HttpCall::kCudaMemoryUnregister:
      return {};
    case HttpCall::kTraceSetting:
      return show_trace_setting(exchange, route, operations);
    case HttpCall::kLogSettings:
      return show_log_settings(exchange, operations);
    case HttpCall::kUnserved:
      return error_response(unimplemented("{} is not served", exchange.target().substr(0, 200)));
    default:
      return wrong_call(exchange, route);
  }
}

}  // namespace

void answer_operation(HttpExchange exchange, const HttpRoute& route, Operations& operations) {
  if (route.call == HttpCall::kModelLoad) return load(std::move(exchange), route, operations);
  if (route.call == HttpCall::kModelUnload) return unload(std::move(exchange), route, operations);
  // Not compressed: Triton's asynchronous client says that it takes that and does not.
  exchange.respond(answer_now(exchange, route, operations));
}

}  // namespace fermata::serve
