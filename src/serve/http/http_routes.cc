#include "serve/http/http_routes.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <iterator>
#include <optional>

#include "absl/strings/ascii.h"

namespace fermata::serve {
namespace {

struct Pattern {
  HttpMethod method;
  std::string_view path;  // M, V, R and P stand for a model, a version, a region and a page
  HttpCall call;
};

constexpr HttpMethod kGet = HttpMethod::kGet, kPost = HttpMethod::kPost;

// Every route of docs/protocol.md; the busiest first.
constexpr Pattern kPatterns[] = {
    {kPost, "v2/models/M/infer", HttpCall::kInfer},
    {kPost, "v2/models/M/versions/V/infer", HttpCall::kInfer},
    {kGet, "v2/models/M/stream", HttpCall::kStream},
    {kGet, "v2/models/M/versions/V/stream", HttpCall::kStream},
    {kGet, "v2/health/live", HttpCall::kServerLive},
    {kGet, "v2/health/ready", HttpCall::kServerReady},
    {kGet, "v2", HttpCall::kServerMetadata},
    {kGet, "v2/models/stats", HttpCall::kStatistics},
    {kGet, "v2/models/M/stats", HttpCall::kStatistics},
    {kGet, "v2/models/M/versions/V/stats", HttpCall::kStatistics},
    {kGet, "v2/models/M/ready", HttpCall::kModelReady},
    {kGet, "v2/models/M/versions/V/ready", HttpCall::kModelReady},
    {kGet, "v2/models/M/config", HttpCall::kModelConfig},
    {kGet, "v2/models/M/versions/V/config", HttpCall::kModelConfig},
    {kGet, "v2/models/M", HttpCall::kModelMetadata},
    {kGet, "v2/models/M/versions/V", HttpCall::kModelMetadata},
    {kPost, "v2/repository/index", HttpCall::kRepositoryIndex},
    {kPost, "v2/repository/models/M/load", HttpCall::kModelLoad},
    {kPost, "v2/repository/models/M/unload", HttpCall::kModelUnload},
    {kGet, "v2/systemsharedmemory/status", HttpCall::kMemoryStatus},
    {kGet, "v2/systemsharedmemory/region/R/status", HttpCall::kMemoryStatus},
    {kPost, "v2/systemsharedmemory/region/R/register", HttpCall::kMemoryRegister},
    {kPost, "v2/systemsharedmemory/region/R/unregister", HttpCall::kMemoryUnregister},
    {kPost, "v2/systemsharedmemory/unregister", HttpCall::kMemoryUnregister},
    {kGet, "v2/cudasharedmemory/status", HttpCall::kCudaMemoryStatus},
    {kGet, "v2/cudasharedmemory/region/R/status", HttpCall::kCudaMemoryStatus},
    {kPost, "v2/cudasharedmemory/region/R/register", HttpCall::kCudaMemoryRegister},
    {kPost, "v2/cudasharedmemory/region/R/unregister", HttpCall::kCudaMemoryUnregister},
    {kPost, "v2/cudasharedmemory/unregister", HttpCall::kCudaMemoryUnregister},
    {kGet, "", HttpCall::kPage},
    {kGet, "stream", HttpCall::kPage},
    {kGet, "pages/P", HttpCall::kPage},
    {kGet, "metrics", HttpCall::kMetrics},
    {kGet, "v2/fermata/placement", HttpCall::kPlacement},
    {kGet, "v2/fermata/decisions", HttpCall::kDecisions},
    {kGet, "v2/live/events", HttpCall::kLive},
    {kGet, "v2/live/requests", HttpCall::kLive},
    {kGet, "v2/live/requests/R", HttpCall::kLive},
    {kGet, "v2/live/decisions", HttpCall::kLive},
    {kGet, "v2/live/decisions/R", HttpCall::kLive},
    {kPost, "v2/live/what_if", HttpCall::kLive},
    {kGet, "v2/live/recording", HttpCall::kLive},
    {kGet, "v2/live/trace", HttpCall::kLive},
    {kPost, "v2/models/M/generate", HttpCall::kUnserved},
    {kPost, "v2/models/M/generate_stream", HttpCall::kUnserved},
    {kGet, "v2/trace/setting", HttpCall::kTraceSetting},
    {kPost, "v2/trace/setting", HttpCall::kTraceSetting},
    {kGet, "v2/models/M/trace/setting", HttpCall::kTraceSetting},
    {kPost, "v2/models/M/trace/setting", HttpCall::kTraceSetting},
    {kGet, "v2/logging", HttpCall::kLogSettings},
    {kPost, "v2/logging", HttpCall::kLogSettings},
};

constexpr size_t kMostSegments = 8;

struct Segments {
  std::array<std::string_view, kMostSegments> parts;
  size_t count = 0;
  bool too_many = false;
};

Segments split(std::string_view path) {
  Segments result;
  while (!path.empty()) {
    const size_t end = std::min(path.find('/'), path.size());
    if (end > 0) {
      if (result.count == kMostSegments) {
        result.too_many = true;
        break;
      }
      result.parts[result.count++] = path.substr(0, end);
    }
    path.remove_prefix(std::min(end + 1, path.size()));
  }
  return result;
}

// The segment that takes the place of a pattern's one, if it does.
bool match(std::string_view pattern, const Segments& path, HttpRoute& route) {
  size_t at = 0;
  std::string_view model, version, region, page;
  for (; !pattern.empty(); ++at) {
    const size_t end = std::min(pattern.find('/'), pattern.size());
    const std::string_view expected = pattern.substr(0, end);
    pattern.remove_prefix(std::min(end + 1, pattern.size()));
    if (at == path.count) return false;
    const std::string_view part = path.parts[at];
    if (expected == "M") {
      model = part;
    } else if (expected == "V") {
      version = part;
    } else if (expected == "R") {
      region = part;
    } else if (expected == "P") {
      page = part;
    } else if (expected != part) {
      return false;
    }
  }
  if (at != path.count) return false;
  route.model = decode_percent(model);
  route.version = decode_percent(version);
  route.region = decode_percent(region);
  route.page = decode_percent(page);
  return true;
}

// The methods allowed so far, and one more.
std::string_view allow(std::string_view before, HttpMethod method) {
  constexpr std::string_view kReads = "GET, HEAD", kWrites = "POST", kBoth = "GET, HEAD, POST";
  const std::string_view more = method == kGet ? kReads : kWrites;
  return before.empty() || before == more ? more : kBoth;
}

}  // namespace

std::string decode_percent(std::string_view text) {
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    unsigned value = 0;
    if (text[i] == '%' && i + 2 < text.size()) {
      const char* digits = text.data() + i + 1;
      if (std::from_chars(digits, digits + 2, value, 16).ptr == digits + 2) {
        result.push_back(static_cast<char>(value));
        i += 2;
        continue;
      }
    }
    result.push_back(text[i]);
  }
  return result;
}

std::string encode_percent(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
        std::string_view("-._~").find(c) != std::string_view::npos) {
      result.push_back(c);
    } else {
      fmt::format_to(std::back_inserter(result), "%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return result;
}

bool is_admin(HttpCall call) {
  switch (call) {
    case HttpCall::kModelLoad:
    case HttpCall::kModelUnload:
    case HttpCall::kMemoryStatus:
    case HttpCall::kMemoryRegister:
    case HttpCall::kMemoryUnregister:
    case HttpCall::kMetrics:
    case HttpCall::kPlacement:
    case HttpCall::kDecisions:
    case HttpCall::kLive:
      return true;
    default:
      return false;
  }
}

HttpRoute find_route(HttpMethod method, std::string_view target) {
  HttpRoute route;
  const Segments path = split(target.substr(0, target.find('?')));
  if (path.too_many) return route;
  for (const Pattern& pattern : kPatterns) {
    if (!match(pattern.path, path, route)) continue;
    if (pattern.method == method) {
      route.call = pattern.call;
      return route;
    }
    route.call = HttpCall::kWrongMethod;
    route.allow = allow(route.allow, pattern.method);
  }
  return route;
}

}  // namespace fermata::serve
