#include "model/model_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace fermata {
namespace {

using ::testing::HasSubstr;

// One input of three by anything, one output of ten, both batched.
FileSignature batched() {
  return {{{"x", DataType::kFp32, {-1, 3, -1}, {"n", "", "width"}}},
          {{"y", DataType::kInt64, {-1, 10}, {"n", ""}}}};
}

absl::StatusOr<inference::ModelConfig> complete(const std::string& text,
                                                const FileSignature& file = batched()) {
  auto config = parse_model_config(text, "config.pbtxt");
  if (!config.ok()) return config.status();
  return complete_model_config(*std::move(config), file, "m", 64);
}

std::string says(const absl::StatusOr<inference::ModelConfig>& config) {
  return std::string(config.status().message());
}

TEST(ModelConfig, ComesWhollyFromTheFileWhereNoneIsWritten) {
  const auto config = complete("");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->name(), "m");
  EXPECT_EQ(config->platform(), "onnxruntime_onnx");
  EXPECT_EQ(config->max_batch_size(), 64);
  const Signature signature = signature_of(*config);
  EXPECT_TRUE(signature.batches);
  EXPECT_EQ(signature.inputs[0].dims, (Shape{3, -1}));
  EXPECT_EQ(signature.wire_shape(signature.outputs[0]), (Shape{-1, 10}));
  EXPECT_FALSE(signature.fixed_shape());
}

TEST(ModelConfig, WithoutAFreeLeadingDimensionEverywhereNothingIsBatched) {
  FileSignature file = batched();
  file.outputs[0].shape = {10};
  file.outputs[0].symbols = {""};
  const auto config = complete("", file);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->max_batch_size(), 0);
  EXPECT_EQ(signature_of(*config).inputs[0].dims, (Shape{-1, 3, -1}));
}

TEST(ModelConfig, LeadingDimensionsOfInputsOfDifferentNamesAreNoBatch) {
  FileSignature file = batched();
  file.outputs[0].symbols[0] = "Negx_dim_0";  // as an exporter names it
  EXPECT_EQ(complete("", file)->max_batch_size(), 64);
  file.inputs.push_back({"z", DataType::kFp32, {-1}, {"queries"}});
  EXPECT_EQ(complete("", file)->max_batch_size(), 0);
}

TEST(ModelConfig, SaysWhyAModelOfFreeDimensionsDoesNotBatch) {
  const auto why = [](const FileSignature& file, std::string_view text = "") {
    return why_not_batching(*parse_model_config(text, "config.pbtxt"), file);
  };
  EXPECT_EQ(why(batched()), "");
  FileSignature file = batched();
  file.inputs.push_back({"z", DataType::kFp32, {-1}, {"queries"}});
  EXPECT_THAT(why(file), HasSubstr("of input 'x' is 'n' in the model, that of 'z' 'queries'"));
  EXPECT_EQ(why(file, "max_batch_size: 0"), "");
  EXPECT_EQ(why(file, "input { name: 'z' data_type: TYPE_FP32 dims: [ -1 ] }"), "");
  file.inputs[1].shape = {4};
  EXPECT_THAT(why(file), HasSubstr("input 'z' has shape [4]"));
  file.inputs[1].any_rank = true;
  EXPECT_THAT(why(file), HasSubstr("input 'z' has no rank"));
  file = batched();
  file.outputs[0].shape = {10};
  EXPECT_THAT(why(file), HasSubstr("output 'y' has shape [10]"));
  file.inputs[0].shape[0] = 1;  // as fixed as the output
  EXPECT_EQ(why(file), "");
  file = batched();
  file.defaults = {{"factor", DataType::kFp32, {1}, {""}}};
  EXPECT_THAT(why(file, "input { name: 'factor' data_type: TYPE_FP32 dims: [ 1 ] }"),
              HasSubstr("initializers"));
}

TEST(ModelConfig, AnInputWithoutARankTakesWhatIsDeclaredOrAnything) {
  FileSignature file{{{"x", DataType::kFp32, {}, {}}}, {{"y", DataType::kFp32, {}, {}}}};
  file.inputs[0].any_rank = file.outputs[0].any_rank = true;
  const auto open = complete("", file);
  ASSERT_TRUE(open.ok()) << open.status();
  EXPECT_EQ(open->max_batch_size(), 0);
  EXPECT_TRUE(signature_of(*open, file).inputs[0].any_rank);
  EXPECT_FALSE(signature_of(*open, file).fixed_shape());
  const auto declared =
      complete("max_batch_size: 4 input { name: 'x' data_type: TYPE_FP32 dims: [ 2 ] }", file);
  ASSERT_TRUE(declared.ok()) << declared.status();
  EXPECT_FALSE(signature_of(*declared, file).inputs[0].any_rank);
  EXPECT_EQ(signature_of(*declared, file).inputs[0].dims, Shape{2});
}

TEST(ModelConfig, AnInitializerThatAnInputReplacesIsThereWhereItIsDeclared) {
  FileSignature file = batched();
  file.defaults = {{"factor", DataType::kFp32, {1}, {""}}};
  EXPECT_EQ(complete("", file)->input_size(), 1);
  const auto config = complete("input { name: 'factor' data_type: TYPE_FP32 dims: [ 1 ] }", file);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->max_batch_size(), 0);
  const Signature signature = signature_of(*config, file);
  EXPECT_TRUE(signature.input("factor")->optional);
  EXPECT_FALSE(signature.input("x")->optional);
  EXPECT_THAT(says(complete("max_batch_size: 4 input { name: 'factor' data_type: TYPE_FP32 "
                            "dims: [ 1 ] }",
                            file)),
              HasSubstr("'factor'"));
}

TEST(ModelConfig, OnlyNamesThatInputsShareSayThatDimensionsAreEqual) {
  FileSignature file = batched();
  EXPECT_FALSE(signature_of(*complete("", file), file).has_symbols());  // "width" is there once
  file.inputs.push_back({"z", DataType::kFp32, {-1, -1}, {"n", "width"}});
  const Signature signature = signature_of(*complete("", file), file);
  EXPECT_EQ(signature.inputs[0].symbols, (std::vector<std::string>{"", "width"}));
  EXPECT_EQ(signature.inputs[1].symbols, std::vector<std::string>{"width"});
  for (FileTensor& input : file.inputs) input.symbols.back() = "?";
  EXPECT_FALSE(signature_of(*complete("", file), file).has_symbols());
}

TEST(ModelConfig, AnExplicitZeroAndFullShapesMeanNoBatch) {
  EXPECT_EQ(complete("max_batch_size: 0")->max_batch_size(), 0);
  EXPECT_EQ(
      complete("input { name: 'x' data_type: TYPE_FP32 dims: [1, 3, 640] }")->max_batch_size(), 0);
}

TEST(ModelConfig, WhatIsDeclaredNarrowsTheFile) {
  const auto config =
      complete("max_batch_size: 8 input { name: 'x' data_type: TYPE_FP32 dims: [3, 640] }");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_TRUE(signature_of(*config).fixed_shape());
  EXPECT_EQ(config->output_size(), 1);
}

TEST(ModelConfig, AnEntryMayLeaveOutWhatTheFileSays) {
  for (const char* text :
       {"output { name: 'y' label_filename: 'l.txt' }", "output { name: 'y' }",
        "input { name: 'x' dims: [ 3, -1 ] }", "input { name: 'x' data_type: TYPE_FP32 }",
        "input { name: 'x' format: FORMAT_NONE } output { name: 'y' dims: [ 10 ] }"}) {
    const auto config = complete(std::string("max_batch_size: 8 ") + text);
    ASSERT_TRUE(config.ok()) << text << config.status();
    const Signature signature = signature_of(*config);
    EXPECT_EQ(signature.inputs[0].datatype, DataType::kFp32) << text;
    EXPECT_EQ(signature.inputs[0].dims, (Shape{3, -1})) << text;
    EXPECT_EQ(signature.outputs[0].datatype, DataType::kInt64) << text;
    EXPECT_EQ(signature.outputs[0].dims, (Shape{10})) << text;
  }
  EXPECT_EQ(complete("output { name: 'y' }")->max_batch_size(), 64);
  EXPECT_EQ(signature_of(*complete("max_batch_size: 0 input { name: 'x' }")).inputs[0].dims,
            (Shape{-1, 3, -1}));
}

TEST(ModelConfig, ReshapesKeepTheFreeDimension) {
  const auto config = complete(
      "max_batch_size: 8 input { name: 'x' data_type: TYPE_FP32 dims: [-1, 1, 3] "
      "reshape { shape: [3, -1] } }");
  ASSERT_TRUE(config.ok()) << config.status();
  const Signature signature = signature_of(*config);
  EXPECT_EQ(signature.inputs[0].reshaped({7, 1, 3}), (Shape{3, 7}));
}

TEST(ModelConfig, AScalarMayBeDeclaredAsOne) {
  const FileSignature file{{{"x", DataType::kFp32, {}, {}}}, {{"y", DataType::kFp32, {}, {}}}};
  for (const char* declared :
       {"input { name: 'x' data_type: TYPE_FP32 dims: [ 1 ] }",
        "input { name: 'x' data_type: TYPE_FP32 dims: [ 1 ] reshape { shape: [ ] } }",
        "max_batch_size: 0 input [ { name: 'x' data_type: TYPE_FP32 dims: [ 1 ] reshape { } } ] "
        "output [ { name: 'y' data_type: TYPE_FP32 dims: [ 1 ] } ]"}) {
    const auto config = complete(declared, file);
    ASSERT_TRUE(config.ok()) << declared << config.status();
    const Signature signature = signature_of(*config);
    EXPECT_EQ(signature.inputs[0].dims, Shape{1});
    EXPECT_EQ(signature.inputs[0].reshaped({1}), Shape{});
  }
  EXPECT_FALSE(complete("input { name: 'x' data_type: TYPE_FP32 dims: [ 2 ] }", file).ok());
}

TEST(ModelConfig, ReadsWhatRepositoriesOfTheEcosystemHold) {
  const auto config = complete(R"(
    name: "m"
    backend: "onnxruntime"
    max_batch_size: 16
    input [ { name: "x" data_type: TYPE_FP32 format: FORMAT_NONE dims: [ 3, 224 ] } ]
    output [ { name: "y" data_type: TYPE_INT64 dims: [ 10 ] label_filename: "labels.txt" } ]
    instance_group [ { count: 2 kind: KIND_GPU gpus: [ 0, 1 ] } ]
    dynamic_batching {
      preferred_batch_size: [ 4, 8 ]
      default_queue_policy { timeout_action: REJECT default_timeout_microseconds: 5000 }
      priority_queue_policy { key: 1 value { max_queue_size: 3 } }
    }
    optimization { execution_accelerators { gpu_execution_accelerator: [ { name: "tensorrt"
      parameters { key: "precision_mode" value: "FP16" } } ] } }
    version_policy: { specific: { versions: [ 1, 3 ] } }
    parameters: { key: "k" value: { string_value: "v" } }
    model_warmup [ { name: "w" batch_size: 4 inputs: { key: "x" value: {
      data_type: TYPE_FP32 dims: [ 3, 224 ] random_data: true } } } ]
    model_transaction_policy { decoupled: false }
    response_cache { enable: true }
  )");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->parameters().at("k").string_value(), "v");
}

TEST(ModelConfig, MayBeginWithAByteOrderMark) {
  EXPECT_EQ(complete("\xef\xbb\xbfmax_batch_size: 4")->max_batch_size(), 4);
}

TEST(ModelConfig, ReadsJson) {
  const auto config = complete(R"({"max_batch_size": 4, "input": [{"name": "x",
      "data_type": "TYPE_FP32", "dims": [3, -1]}]})");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->max_batch_size(), 4);
  EXPECT_THAT(says(complete("{\"max_batch_size\": }")), HasSubstr("config.pbtxt"));
}

TEST(ModelConfig, ErrorsSayWhereAndWhat) {
  EXPECT_THAT(says(complete("name: \"m\"\nmax_batch: 3\n")), HasSubstr("line 2, column 10"));
  EXPECT_THAT(says(complete("name: 'other'")), HasSubstr("'other', but the folder is 'm'"));
  EXPECT_THAT(says(complete("platform: 'tensorflow_graphdef'")), HasSubstr("onnxruntime_onnx"));
  EXPECT_THAT(says(complete("max_batch_size: -1")), HasSubstr("max_batch_size is -1"));
  EXPECT_THAT(says(complete("max_batch_size: 2147483647")), HasSubstr("expected 0 to 65536"));
  EXPECT_THAT(says(complete("input { name: 'z' data_type: TYPE_FP32 }")),
              HasSubstr("input 'z' is not in the model, which has 'x'"));
  EXPECT_THAT(says(complete("input { name: 'x' data_type: TYPE_INT8 dims: [3, 1] }")),
              HasSubstr("data_type is TYPE_INT8, the model has TYPE_FP32"));
  EXPECT_THAT(
      says(complete("max_batch_size: 2 input { name: 'x' data_type: TYPE_FP32 dims: [4, 1] }")),
      HasSubstr("dims are [4,1], the model has [3,-1] after the batch dimension"));
  EXPECT_THAT(
      says(complete("ensemble_scheduling { max_inflight_requests: 4 }")),
      HasSubstr("ensemble_scheduling is not served; write it as a service of kind pipeline"));
  FileSignature fixed = batched();
  fixed.inputs[0].shape = {1, 3, 5};
  for (const char* text :
       {"max_batch_size: 2 input { name: 'x' data_type: TYPE_FP32 dims: [3, 5] }",
        "max_batch_size: 2"}) {
    EXPECT_THAT(says(complete(text, fixed)), HasSubstr("its first dimension must be free"));
  }
  fixed = batched();
  fixed.outputs[0].shape = {1, 10};
  EXPECT_THAT(says(complete("max_batch_size: 2", fixed)),
              HasSubstr("output 'y' has shape [1,10] in the model"));
}

}  // namespace
}  // namespace fermata
