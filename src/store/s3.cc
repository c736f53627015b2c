#include <curl/curl.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <pugixml.hpp>

#include "base/status.h"
#include "store/object_store.h"

namespace fermata::store {
namespace {

constexpr std::string_view kScheme = "s3://";
constexpr long kConnectSeconds = 10;
// Less than this for so long: the store has gone away.
constexpr long kSlowestBytesPerSecond = 1, kStalledSeconds = 30;
constexpr size_t kLongestReply = 64 << 20;  // of a list, or of an error
constexpr const char* kHashOfNothing =
    "x-amz-content-sha256: e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

struct FreeHandle {
  void operator()(CURL* handle) const { curl_easy_cleanup(handle); }
};
struct FreeHeaders {
  void operator()(curl_slist* headers) const { curl_slist_free_all(headers); }
};
using Handle = std::unique_ptr<CURL, FreeHandle>;
using Headers = std::unique_ptr<curl_slist, FreeHeaders>;

// A key as a path of a URL ('/' stays) or as the value of a parameter.
std::string escaped(std::string_view text, bool path) {
  std::string result;
  for (const char c : text) {
    const bool plain = std::isalnum(static_cast<unsigned char>(c)) != 0 ||
                       std::string_view("-_.~").find(c) != std::string_view::npos;
    if (plain || (path && c == '/')) {
      result += c;
    } else {
      result += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return result;
}

size_t append(char* data, size_t, size_t size, void* text) {
  auto& reply = *static_cast<std::string*>(text);
  if (reply.size() + size > kLongestReply) return 0;
  reply.append(data, size);
  return size;
}

size_t write(char* data, size_t, size_t size, void* file) {
  return static_cast<std::ofstream*>(file)->write(data, static_cast<std::streamsize>(size)) ? size
                                                                                            : 0;
}

class S3Store final : public ObjectStore {
 public:
  S3Store(const S3Url& url, S3Access access)
      : access_(std::move(access)),
        base_(fmt::format("{}/{}", endpoint_of(url, access_), escaped(url.bucket, true))) {}

  absl::StatusOr<std::vector<Object>> list(const std::string& prefix) override {
    std::vector<Object> objects;
    std::string token;
    do {
      // In the order of their names, as the signature wants them.
      std::string url = base_ + "?";
      if (!token.empty()) url += "continuation-token=" + escaped(token, false) + "&";
      url += "list-type=2&prefix=" + escaped(prefix, false);
      std::string reply;
      RETURN_IF_ERROR(get(url, append, &reply));
      ASSIGN_OR_RETURN(token, add_page(reply, objects));
    } while (!token.empty());
    return objects;
  }

  absl::Status fetch(const std::string& key, const std::filesystem::path& file) override {
    std::ofstream out(file, std::ios::binary | std::ios::trunc);
    RETURN_IF_ERROR(get(fmt::format("{}/{}", base_, escaped(key, true)), write, &out));
    out.close();
    if (!out) return internal("cannot write {}", file.string());
    return absl::OkStatus();
  }

 private:
  static std::string endpoint_of(const S3Url& url, const S3Access& access) {
    if (!url.endpoint.empty()) return url.endpoint;
    if (!access.endpoint.empty()) return access.endpoint;
    return fmt::format("https://s3.{}.amazonaws.com", access.region);
  }

  // What a page adds; the token of the next one, empty after the last.
  absl::StatusOr<std::string> add_page(const std::string& reply, std::vector<Object>& objects) {
    pugi::xml_document document;
    const auto parsed = document.load_buffer(reply.data(), reply.size());
    const pugi::xml_node page = document.child("ListBucketResult");
    if (!parsed || !page) return internal("{} answers no list of objects", base_);
    for (const pugi::xml_node node : page.children("Contents")) {
      objects.push_back({.key = node.child_value("Key"),
                         .etag = node.child_value("ETag"),
                         .bytes = node.child("Size").text().as_llong()});
    }
    return std::string(page.child_value("NextContinuationToken"));
  }

  absl::Status get(const std::string& url, size_t (*sink)(char*, size_t, size_t, void*), void* to) {
    const Handle handle(curl_easy_init());
    if (handle == nullptr) return internal("libcurl could not start");
    CURL* const h = handle.get();
    const Headers headers = sign(h);
    char problem[CURL_ERROR_SIZE] = {};
    curl_easy_setopt(h, CURLOPT_URL, url.c_str());
    curl_easy_setopt(h, CURLOPT_HTTPHEADER, headers.get());
    curl_easy_setopt(h, CURLOPT_ERRORBUFFER, problem);
    curl_easy_setopt(h, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(h, CURLOPT_FAILONERROR, 1L);
    curl_easy_setopt(h, CURLOPT_CONNECTTIMEOUT, kConnectSeconds);
    curl_easy_setopt(h, CURLOPT_LOW_SPEED_LIMIT, kSlowestBytesPerSecond);
    curl_easy_setopt(h, CURLOPT_LOW_SPEED_TIME, kStalledSeconds);
    curl_easy_setopt(h, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(h, CURLOPT_WRITEFUNCTION, sink);
    curl_easy_setopt(h, CURLOPT_WRITEDATA, to);
    const CURLcode code = curl_easy_perform(h);
    if (code == CURLE_OK) return absl::OkStatus();
    long status = 0;
    curl_easy_getinfo(h, CURLINFO_RESPONSE_CODE, &status);
    const std::string why = *problem != '\0' ? problem : curl_easy_strerror(code);
    const auto kind = status == 404                    ? absl::StatusCode::kNotFound
                      : status == 403 || status == 401 ? absl::StatusCode::kPermissionDenied
                                                       : absl::StatusCode::kUnavailable;
    return error(kind, "the store at {} did not give {}: {}", base_, url, why);
  }

  // The headers that go with a request, and how libcurl signs it.
  Headers sign(CURL* handle) const {
    Headers headers;
    if (access_.key.empty()) return headers;
    headers.reset(curl_slist_append(nullptr, kHashOfNothing));
    if (!access_.token.empty()) {
      const std::string token = "x-amz-security-token: " + access_.token;
      (void)curl_slist_append(headers.get(), token.c_str());
    }
    const std::string scheme = fmt::format("aws:amz:{}:s3", access_.region);
    const std::string user = access_.key + ":" + access_.secret;
    curl_easy_setopt(handle, CURLOPT_AWS_SIGV4, scheme.c_str());
    curl_easy_setopt(handle, CURLOPT_USERPWD, user.c_str());
    return headers;
  }

  const S3Access access_;
  const std::string base_;  // endpoint and bucket
};

}  // namespace

bool is_s3_url(std::string_view text) { return text.substr(0, kScheme.size()) == kScheme; }

absl::StatusOr<S3Url> parse_s3_url(std::string_view text) {
  const auto wrong = [text] {
    return invalid(
        "\"{}\" is no place in a store, expected s3://BUCKET/PREFIX or "
        "s3://HOST:PORT/BUCKET/PREFIX",
        text);
  };
  if (!is_s3_url(text)) return wrong();
  std::string_view rest = text.substr(kScheme.size());
  S3Url url;
  std::string_view scheme = "http://";
  for (const std::string_view given : {"http://", "https://"}) {
    if (rest.substr(0, given.size()) != given) continue;
    scheme = given;
    rest.remove_prefix(given.size());
    url.endpoint = given;
  }
  const auto next = [&rest] {
    const size_t slash = rest.find('/');
    const std::string_view part = rest.substr(0, slash);
    rest.remove_prefix(slash == std::string_view::npos ? rest.size() : slash + 1);
    return part;
  };
  std::string_view first = next();
  if (!url.endpoint.empty() || first.find(':') != std::string_view::npos) {
    url.endpoint = std::string(scheme) + std::string(first);
    if (first.empty()) return wrong();
    first = next();
  }
  url.bucket = first;
  url.prefix = rest;
  if (!url.prefix.empty() && url.prefix.back() != '/') url.prefix += '/';
  if (url.bucket.empty()) return wrong();
  return url;
}

S3Access S3Access::from_environment() {
  const auto variable = [](const char* name) -> std::string {
    const char* value = std::getenv(name);
    return value == nullptr ? "" : value;
  };
  S3Access access{.key = variable("AWS_ACCESS_KEY_ID"),
                  .secret = variable("AWS_SECRET_ACCESS_KEY"),
                  .token = variable("AWS_SESSION_TOKEN"),
                  .endpoint = variable("AWS_ENDPOINT_URL")};
  for (const char* name : {"AWS_DEFAULT_REGION", "AWS_REGION"}) {
    if (std::string region = variable(name); !region.empty()) access.region = std::move(region);
  }
  while (!access.endpoint.empty() && access.endpoint.back() == '/') access.endpoint.pop_back();
  return access;
}

std::unique_ptr<ObjectStore> make_s3_store(const S3Url& url, const S3Access& access) {
  static const CURLcode started = curl_global_init(CURL_GLOBAL_DEFAULT);
  (void)started;
  return std::make_unique<S3Store>(url, access);
}

}  // namespace fermata::store
