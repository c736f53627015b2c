#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace fermata::store {

struct Object {
  std::string key;   // whole, with the prefix that was asked for
  std::string etag;  // changes with the content
  int64_t bytes = 0;
};

// Objects of one bucket. Calls block, are made from one thread at a time, and fail with
// UNAVAILABLE where the store does not answer, PERMISSION_DENIED where it does not know us.
class ObjectStore {
 public:
  virtual ~ObjectStore() = default;
  // All whose key begins with `prefix`, by key. One request for each thousand.
  virtual absl::StatusOr<std::vector<Object>> list(const std::string& prefix) = 0;
  // Writes the content over `file`, whose folder exists.
  virtual absl::Status fetch(const std::string& key, const std::filesystem::path& file) = 0;
};

// s3://BUCKET/PREFIX, s3://HOST:PORT/BUCKET/PREFIX or s3://https://HOST:PORT/BUCKET/PREFIX.
struct S3Url {
  std::string endpoint;  // with its scheme; empty: AWS_ENDPOINT_URL, or Amazon's own
  std::string bucket;
  std::string prefix;  // empty, or ends with '/'
};
bool is_s3_url(std::string_view text);
absl::StatusOr<S3Url> parse_s3_url(std::string_view text);

// From AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN, AWS_REGION (us-east-1) and
// AWS_ENDPOINT_URL. Without a key requests are not signed, as public buckets allow.
struct S3Access {
  std::string key, secret, token, region = "us-east-1", endpoint;
  static S3Access from_environment();
};

// Any store that speaks S3's HTTP interface with signatures of version 4.
std::unique_ptr<ObjectStore> make_s3_store(const S3Url& url, const S3Access& access);

}  // namespace fermata::store
