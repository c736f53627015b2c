#include "client/source.h"

#include <algorithm>
#include <filesystem>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "base/file.h"
#include "base/status.h"
#include "client/video_source.h"
#include "operators/pictures.h"

namespace fermata::client {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostBytes = size_t{64} << 20;  // of a file

bool is_picture(const fs::path& file) {
  const std::string extension = absl::AsciiStrToLower(file.extension().string());
  return extension == ".jpg" || extension == ".jpeg" || extension == ".png";
}

class Pictures final : public Source {
 public:
  Pictures(std::vector<std::string> files, bool loop) : files_(std::move(files)), loop_(loop) {}

  absl::StatusOr<std::optional<cv::Mat>> next(Duration) override {
    if (at_ == files_.size()) return std::optional<cv::Mat>();
    const std::string& file = files_[at_];
    if (++at_ == files_.size() && loop_) at_ = 0;
    if (files_.size() == 1 && !only_.empty()) return only_;
    ASSIGN_OR_RETURN(const std::string bytes, read_file(file, kMostBytes));
    auto picture = operators::decode_picture(
        absl::MakeConstSpan(reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()));
    if (!picture.ok()) return invalid("{}: {}", file, message(picture.status()));
    if (files_.size() == 1) only_ = *picture;
    return *picture;
  }
  std::optional<uint64_t> count() const override {
    return loop_ ? std::nullopt : std::optional<uint64_t>(files_.size());
  }

 private:
  const std::vector<std::string> files_;
  const bool loop_;
  size_t at_ = 0;
  cv::Mat only_;
};

absl::StatusOr<std::unique_ptr<Source>> open_folder(const fs::path& folder, bool loop) {
  std::vector<std::string> files;
  std::error_code failed;
  for (const auto& entry : fs::directory_iterator(folder, failed)) {
    if (is_picture(entry.path())) files.push_back(entry.path().string());
  }
  if (failed) return invalid("{}: {}", folder.string(), failed.message());
  if (files.empty()) {
    return invalid("{} holds no picture, expected files that end in .jpg, .jpeg or .png",
                   folder.string());
  }
  std::sort(files.begin(), files.end());
  return std::make_unique<Pictures>(std::move(files), loop);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Source>> open_source(const std::string& name, bool loop) {
  if (absl::StrContains(name, "://")) return open_video(name, loop);
  std::error_code failed;
  const fs::file_status status = fs::status(name, failed);
  if (!fs::exists(status)) {
    return invalid("{} is not there, expected a folder, a picture, a film, a camera or an address",
                   name);
  }
  if (fs::is_directory(status)) return open_folder(name, loop);
  if (!is_picture(name)) return open_video(name, loop);
  return std::make_unique<Pictures>(std::vector{name}, loop);
}

}  // namespace fermata::client
