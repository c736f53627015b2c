// Repositories that are wrong, hostile, or change under the server.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "engine/engine.h"
#include "engine/fixture.h"
#include "engine/trial/trial.h"

namespace fermata::engine {
namespace {

using ::testing::HasSubstr;

InferRequest whole() {
  return {.service = "m", .inputs = {floats("x", {3, 5}, std::vector<float>(15, 2))}};
}

TEST(Trial, SaysWhatAFileOffersAndThatItsRowsAreApart) {
  const auto found =
      try_model(fermata_command(), {.file = data_folder() + "/repository/pair/1/model.onnx"},
                {Duration::seconds(60)});
  ASSERT_TRUE(found.ok()) << found.status();
  ASSERT_EQ(found->face.inputs.size(), 2u);
  EXPECT_EQ(found->face.inputs[0].shape, (Shape{-1, 4}));
  EXPECT_EQ(found->face.inputs[0].symbols[0], "batch");
  EXPECT_EQ(found->rows.verdict, RowTrial::Verdict::kApart) << found->rows.seen;
  EXPECT_FALSE(found->profile.has_value());
}

TEST(Trial, HostileFilesAreNamed) {
  for (const char* file : {"truncated", "garbage", "empty"}) {
    const std::string path = data_folder() + "/hostile/" + file + ".onnx";
    const auto found = try_model(fermata_command(), {.file = path}, {Duration::seconds(60)});
    EXPECT_EQ(found.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(found.status().message()), HasSubstr(path));
  }
}

TEST(Trial, AReaderThatCrashesOrHangsIsAnError) {
  TemporaryFolder folder;
  folder.write("crash.sh", "#!/bin/sh\nkill -SEGV $$\n");
  folder.write("hang.sh", "#!/bin/sh\nexec sleep 1000\n");
  for (const char* script : {"crash.sh", "hang.sh"}) {
    std::filesystem::permissions(folder.path() / script, std::filesystem::perms::owner_all);
  }
  const auto says = [&folder](const char* script, Duration limit) {
    const std::string program = (folder.path() / script).string();
    return std::string(try_model(program, {.file = "f"}, {limit}).status().message());
  };
  EXPECT_THAT(says("crash.sh", Duration::seconds(60)), HasSubstr("crashed"));
  EXPECT_THAT(says("hang.sh", Duration::millis(100)), HasSubstr("took longer"));
  EXPECT_THAT(says("missing.sh", Duration::seconds(60)), HasSubstr("cannot start"));
}

TEST(Repository, OneBadModelLeavesTheOthersAlone) {
  TemporaryFolder folder;
  folder.copy_model("whole", "m");
  folder.copy_model("whole", "broken");
  std::filesystem::copy_file(data_folder() + "/hostile/truncated.onnx",
                             folder.path() / "broken/1/model.onnx",
                             std::filesystem::copy_options::overwrite_existing);
  folder.write("wrong/config.pbtxt", "max_batch_size: 4\ninput { nam: \"x\" }\n");
  std::filesystem::create_directories(folder.path() / "wrong/1");
  const auto engine = *make_engine(options_for(folder.path()));
  const std::vector<ModelStatus> index = engine->index();
  ASSERT_EQ(index.size(), 3u);
  EXPECT_THAT(index[0].reason, HasSubstr("broken/1/model.onnx"));
  EXPECT_EQ(index[1].state, ModelState::kReady);
  EXPECT_THAT(index[2].reason, HasSubstr("config.pbtxt: line 2, column 12"));
  EXPECT_TRUE(call(*engine, whole()).status.ok());
  EXPECT_EQ(engine->load("broken").code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(engine->load("nowhere").code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(engine->load("../m").code(), absl::StatusCode::kNotFound);
}

// Who opens it would wait for a writer that never comes, and all loads with it.
TEST(Repository, APipeInTheFolderOfAModelIsSaidAndNotOpened) {
  for (const char* file : {"config.pbtxt", "profile.json", "1/model.onnx"}) {
    TemporaryFolder folder;
    folder.copy_model("whole", "m");
    std::filesystem::remove(folder.path() / "m" / file);
    ASSERT_EQ(mkfifo((folder.path() / "m" / file).c_str(), 0600), 0);
    const absl::Status bad = read_model_folder(folder.path(), "m").status();
    EXPECT_THAT(std::string(bad.message()),
                HasSubstr(std::string("m/") + file + ": neither a file nor a folder"));
  }
}

TEST(Repository, AVersionThatIsNamedTwiceIsOne) {
  TemporaryFolder folder;
  folder.copy_model("whole", "m");
  std::string versions = "1";
  for (int i = 0; i < 1000; ++i) versions += ", 1";
  const auto found = read_model_folder(
      folder.path(), "m", "version_policy { specific { versions: [" + versions + "] } }");
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->versions, std::vector<int64_t>{1});
}

TEST(Repository, AFailedReloadKeepsTheOldVersion) {
  TemporaryFolder folder;
  folder.copy_model("whole", "m");
  const auto engine = *make_engine(options_for(folder.path()));
  folder.write("m/1/model.onnx", "no model");
  EXPECT_FALSE(engine->load("m").ok());
  EXPECT_TRUE(call(*engine, whole()).status.ok());
  std::filesystem::remove_all(folder.path() / "m");
  EXPECT_EQ(engine->load("m").code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(call(*engine, whole()).status.ok());
}

TEST(Repository, ANewVersionTakesOver) {
  TemporaryFolder folder;
  folder.copy_model("whole", "m");
  const auto engine = *make_engine(options_for(folder.path()));
  EXPECT_EQ(call(*engine, whole()).version, "1");
  std::filesystem::copy(folder.path() / "m/1", folder.path() / "m/12");
  ASSERT_TRUE(engine->load("m").ok());
  EXPECT_EQ(call(*engine, whole()).version, "12");
  EXPECT_EQ(engine->load("m", "version_policy { all {} }"), absl::OkStatus());
  InferRequest old = whole();
  old.version = "1";
  EXPECT_EQ(call(*engine, std::move(old)).version, "1");
}

TEST(Repository, AConfigurationStaysUntilTheModelIsUnloaded) {
  TemporaryFolder folder;
  folder.copy_model("whole", "m");
  std::filesystem::copy(folder.path() / "m/1", folder.path() / "m/2");
  const auto engine = *make_engine(options_for(folder.path()));
  const auto version = [&engine] { return call(*engine, whole()).version; };
  EXPECT_EQ(version(), "2");
  ASSERT_TRUE(engine->load("m", "version_policy { specific { versions: 1 } }").ok());
  EXPECT_EQ(version(), "1");
  EXPECT_FALSE(engine->load("m", "version_policy { specific { versions: 9 } }").ok());
  ASSERT_TRUE(engine->load("m").ok());
  EXPECT_EQ(version(), "1");
  ASSERT_TRUE(engine->unload("m").ok());
  ASSERT_TRUE(engine->load("m").ok());
  EXPECT_EQ(version(), "2");
}

TEST(Repository, LabelsAreReadWithTheModel) {
  TemporaryFolder folder;
  folder.copy_model("whole", "m");
  const std::string config =
      "output { name: 'y' data_type: TYPE_FP32 dims: [ 3, 5 ] label_filename: 'labels.txt' }";
  const auto engine = *make_engine(options_for(folder.path()));
  EXPECT_THAT(
      std::string(engine->load("m", config).message()),
      HasSubstr("output 'y': label_filename: " + (folder.path() / "m/labels.txt").string()));
  folder.write("m/labels.txt", "one\r\ntwo\n\nfour\n");
  ASSERT_TRUE(engine->load("m", config).ok());
  EXPECT_EQ((*engine->catalog()->find("m", ""))->labels.at("y"),
            (std::vector<std::string>{"one", "two", "", "four"}));
}

TEST(Repository, TheQueueOfAModelsOwnConfiguration) {
  TemporaryFolder folder;
  folder.copy_model("whole", "m");
  folder.write("m/config.pbtxt",
               "dynamic_batching { default_queue_policy { default_timeout_microseconds: 1 } }");
  EngineOptions options = options_for(folder.path());
  options.services = {{.name = "own", .model = "m", .slo = Duration::seconds(60)}};
  const auto engine = *make_engine(options);
  EXPECT_EQ(call(*engine, whole()).status.code(), absl::StatusCode::kDeadlineExceeded);
  InferRequest other = whole();
  other.service = "own";
  EXPECT_TRUE(call(*engine, std::move(other)).status.ok());
  ASSERT_TRUE(engine
                  ->load("m",
                         "dynamic_batching { default_queue_policy { timeout_action: DELAY "
                         "default_timeout_microseconds: 1 } }")
                  .ok());
  EXPECT_TRUE(call(*engine, whole()).status.ok());
}

TEST(Repository, NoNameLeavesAModelsFolder) {
  TemporaryFolder folder, elsewhere;
  folder.copy_model("whole", "m");
  elsewhere.copy_model("whole", "x");
  const auto engine = *make_engine(options_for(folder.path()));
  const std::string outside = (elsewhere.path() / "x/1/model.onnx").string();
  for (const std::string& file : {outside, std::string("../1/model.onnx"), std::string("..")}) {
    EXPECT_THAT(
        std::string(engine->load("m", "default_model_filename: \"" + file + "\"").message()),
        HasSubstr("default_model_filename is '" + file + "'"));
    EXPECT_THAT(std::string(engine
                                ->load("m",
                                       "output { name: \"y\" data_type: TYPE_FP32 dims: [-1, "
                                       "-1] label_filename: \"" +
                                           file + "\" }")
                                .message()),
                HasSubstr("label_filename is '" + file + "'"));
  }
  for (const std::string& name :
       {std::string("m\0", 2), std::string("m\0x", 3), std::string("."), std::string("..")}) {
    EXPECT_EQ(engine->load(name).code(), absl::StatusCode::kNotFound);
  }
  EXPECT_EQ(engine->index().size(), 1u);
  EXPECT_TRUE(call(*engine, whole()).status.ok());
}

TEST(Options, AreChecked) {
  TemporaryFolder folder;
  const auto says = [](EngineOptions options) {
    return std::string(make_engine(std::move(options)).status().message());
  };
  EngineOptions options = options_for(folder.path());
  options.workers.types[0].provider = "abacus";
  EXPECT_THAT(says(options), HasSubstr("provider is 'abacus', but this ONNX Runtime can only use"));
  options = options_for(folder.path());
  options.policy = "magic";
  EXPECT_THAT(says(options), HasSubstr("magic"));
  options = options_for(folder.path());
  options.services = {{.name = "s", .model = "nothing"}};
  EXPECT_THAT(says(options), HasSubstr("model 'nothing' is not in the repository"));
  EXPECT_THAT(says(options_for("/nowhere")), HasSubstr("model repository /nowhere"));
}

}  // namespace
}  // namespace fermata::engine
