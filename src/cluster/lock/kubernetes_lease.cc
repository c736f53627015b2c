#include "cluster/lock/kubernetes_lease.h"

#include <curl/curl.h>
#include <fmt/chrono.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <type_traits>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/strip.h"
#include "base/file.h"
#include "base/status.h"

namespace fermata::cluster {
namespace {

constexpr size_t kLongestReply = 1 << 20, kLongestFile = 1 << 16;
constexpr char kPath[] = "/apis/coordination.k8s.io/v1/namespaces/{}/leases";

struct FreeHandle {
  void operator()(CURL* handle) const { curl_easy_cleanup(handle); }
};
struct FreeHeaders {
  void operator()(curl_slist* headers) const { curl_slist_free_all(headers); }
};

size_t append(char* data, size_t, size_t size, void* text) {
  auto& reply = *static_cast<std::string*>(text);
  if (reply.size() + size > kLongestReply) return 0;
  reply.append(data, size);
  return size;
}

// What stands at the place, or nothing: an object of another server's is no reason to stop.
template <class T>
T value_at(const nlohmann::json& object, const char* part, const char* field) {
  const auto place = nlohmann::json::json_pointer("/" + std::string(part) + "/" + field);
  if (!object.contains(place)) return {};
  const nlohmann::json& value = object[place];
  if constexpr (std::is_same_v<T, std::string>) {
    return value.is_string() ? value.get<std::string>() : T();
  } else {
    return value.is_number_integer() ? value.get<T>() : T();
  }
}

LeaseRecord record_of(const nlohmann::json& object) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();  // of the API's numbers
  const auto number = [&](const char* field) {
    return std::clamp<int64_t>(value_at<int64_t>(object, "spec", field), 0, kMost);
  };
  return {.version = value_at<std::string>(object, "metadata", "resourceVersion"),
          .holder = value_at<std::string>(object, "spec", "holderIdentity"),
          .renewed = value_at<std::string>(object, "spec", "renewTime"),
          .duration = Duration::seconds(number("leaseDurationSeconds")),
          .transitions = number("leaseTransitions")};
}

// A host may have any name.
std::string text_of(const nlohmann::json& object) {
  return object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// As the API has times: in UTC, with microseconds. For people who read the Lease.
std::string time_of_day() {
  const auto now =
      std::chrono::time_point_cast<std::chrono::microseconds>(std::chrono::system_clock::now());
  const int64_t micros = now.time_since_epoch().count();
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:06}Z", fmt::gmtime(micros / 1'000'000),
                     micros % 1'000'000);
}

class KubernetesLease final : public LeaseStore {
 public:
  KubernetesLease(const LeaseOptions& options, const std::string& server, const std::string& space)
      : name_(options.name),
        account_(options.account),
        secure_(absl::StartsWith(server, "https://")),
        leases_(server + fmt::format(kPath, space)),
        handle_(curl_easy_init()) {}

  absl::StatusOr<LeaseRecord> read(Duration limit) override {
    const auto object = call("GET", leases_ + "/" + name_, "", "", limit);
    if (absl::IsNotFound(object.status())) return LeaseRecord();
    RETURN_IF_ERROR(object.status());
    LeaseRecord record = record_of(*object);
    if (record.version.empty()) return unavailable("{} answers no Lease", leases_);
    return record;
  }

  absl::StatusOr<std::string> write(const LeaseRecord& record, Duration limit) override {
    nlohmann::json object = {
        {"metadata", {{"name", name_}}},
        {"spec",
         {{"holderIdentity", nullptr},
          {"leaseDurationSeconds", static_cast<int64_t>(record.duration.seconds())},
          {"leaseTransitions", record.transitions},
          {"renewTime", time_of_day()}}}};
    if (!record.holder.empty()) object["spec"]["holderIdentity"] = record.holder;
    const bool is_new = record.version.empty();
    if (is_new) {
      object["apiVersion"] = "coordination.k8s.io/v1";
      object["kind"] = "Lease";
    } else {  // a patch leaves what others have added, and fails if it is not of this version
      object["metadata"]["resourceVersion"] = record.version;
    }
    const auto written = is_new ? call("POST", leases_, "application/json", text_of(object), limit)
                                : call("PATCH", leases_ + "/" + name_,
                                       "application/merge-patch+json", text_of(object), limit);
    if (!is_new && absl::IsNotFound(written.status())) {
      return error(absl::StatusCode::kAborted, "{}", message(written.status()));
    }
    RETURN_IF_ERROR(written.status());
    std::string version = record_of(*written).version;
    if (version.empty()) return unavailable("{} answers no Lease", leases_);
    return version;
  }

 private:
  template <class... Args>
  static absl::Status unavailable(fmt::format_string<Args...> text, Args&&... args) {
    return error(absl::StatusCode::kUnavailable, text, std::forward<Args>(args)...);
  }

  absl::StatusOr<nlohmann::json> call(const char* method, const std::string& url, const char* type,
                                      const std::string& body, Duration limit) {
    CURL* const h = handle_.get();
    if (h == nullptr) return internal("libcurl could not start");
    ASSIGN_OR_RETURN(const auto headers, headers_of(type));
    curl_easy_reset(h);  // keeps connections
    std::string reply;
    char problem[CURL_ERROR_SIZE] = {};
    const std::string authority = account_ + "/ca.crt";
    curl_easy_setopt(h, CURLOPT_URL, url.c_str());
    curl_easy_setopt(h, CURLOPT_CUSTOMREQUEST, method);
    curl_easy_setopt(h, CURLOPT_HTTPHEADER, headers.get());
    if (!body.empty()) {
      curl_easy_setopt(h, CURLOPT_POSTFIELDSIZE, static_cast<long>(body.size()));
      curl_easy_setopt(h, CURLOPT_POSTFIELDS, body.c_str());
    }
    if (secure_) curl_easy_setopt(h, CURLOPT_CAINFO, authority.c_str());
    curl_easy_setopt(h, CURLOPT_TIMEOUT_MS, std::max(1L, static_cast<long>(limit.millis())));
    curl_easy_setopt(h, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(h, CURLOPT_NOPROXY, "*");
    curl_easy_setopt(h, CURLOPT_USERAGENT, "fermata");
    curl_easy_setopt(h, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(h, CURLOPT_ERRORBUFFER, problem);
    curl_easy_setopt(h, CURLOPT_WRITEFUNCTION, append);
    curl_easy_setopt(h, CURLOPT_WRITEDATA, &reply);
    const CURLcode code = curl_easy_perform(h);
    if (code != CURLE_OK) {
      return unavailable("{} {}: {}", method, url,
                         *problem != '\0' ? problem : curl_easy_strerror(code));
    }
    long status = 0;
    curl_easy_getinfo(h, CURLINFO_RESPONSE_CODE, &status);
    return object_of(fmt::format("{} {}", method, url), status, reply);
  }

  // The token is read for each call, since Kubernetes replaces it; it crosses no wire unencrypted.
  absl::StatusOr<std::unique_ptr<curl_slist, FreeHeaders>> headers_of(const char* type) const {
    std::unique_ptr<curl_slist, FreeHeaders> headers(
        curl_slist_append(nullptr, "Accept: application/json"));
    if (*type != '\0') {
      (void)curl_slist_append(headers.get(), fmt::format("Content-Type: {}", type).c_str());
    }
    if (!secure_) return headers;
    ASSIGN_OR_RETURN(const std::string token, read_file(account_ + "/token", kLongestFile));
    (void)curl_slist_append(
        headers.get(),
        fmt::format("Authorization: Bearer {}", view(absl::StripAsciiWhitespace(token))).c_str());
    return headers;
  }

  static absl::StatusOr<nlohmann::json> object_of(const std::string& what, long status,
                                                  const std::string& reply) {
    auto object = nlohmann::json::parse(reply, nullptr, false);
    if (status >= 200 && status < 300 && object.is_object()) return object;
    std::string why = fmt::format("{}: {}", what, status);
    if (object.is_object() && object.contains("message") && object["message"].is_string()) {
      why += ": " + object["message"].get<std::string>();
    }
    const auto kind = status == 404                    ? absl::StatusCode::kNotFound
                      : status == 409                  ? absl::StatusCode::kAborted
                      : status == 401 || status == 403 ? absl::StatusCode::kPermissionDenied
                                                       : absl::StatusCode::kUnavailable;
    return error(kind, "{}", why);
  }

  const std::string name_, account_;
  const bool secure_;
  const std::string leases_;
  const std::unique_ptr<CURL, FreeHandle> handle_;
};

// As each pod is told.
absl::StatusOr<std::string> server_of(const LeaseOptions& options) {
  if (!options.server.empty()) return options.server;
  const char* host = std::getenv("KUBERNETES_SERVICE_HOST");
  const char* port = std::getenv("KUBERNETES_SERVICE_PORT");
  if (host == nullptr || port == nullptr) {
    return error(absl::StatusCode::kFailedPrecondition,
                 "cluster.lease: this is no pod of Kubernetes (no KUBERNETES_SERVICE_HOST), "
                 "expected cluster.lease.server, or cluster.lock");
  }
  const bool is_v6 = std::string_view(host).find(':') != std::string_view::npos;
  return is_v6 ? fmt::format("https://[{}]:{}", host, port)
               : fmt::format("https://{}:{}", host, port);
}

}  // namespace

absl::StatusOr<std::unique_ptr<LeaseStore>> make_kubernetes_lease(const LeaseOptions& options) {
  static const CURLcode started = curl_global_init(CURL_GLOBAL_DEFAULT);
  (void)started;
  ASSIGN_OR_RETURN(const std::string server, server_of(options));
  std::string space = options.space;
  if (space.empty()) {
    ASSIGN_OR_RETURN(space, read_file(options.account + "/namespace", kLongestFile));
    space = std::string(absl::StripAsciiWhitespace(space));
  }
  return std::make_unique<KubernetesLease>(options, server, space);
}

}  // namespace fermata::cluster
