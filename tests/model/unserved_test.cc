#include "model/unserved.h"

#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <gtest/gtest.h>

#include <set>

#include "model/model_config.h"

namespace fermata {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Signature one_input() {
  return {.batches = true,
          .max_batch = 8,
          .inputs = {{.name = "x", .dims = {-1, 2}, .model_dims = {-1, 2}}},
          .outputs = {{.name = "y", .dims = {2}, .model_dims = {2}}}};
}

std::vector<std::string> notes_of(const std::string& text, std::string_view provider = "cpu") {
  const auto config = parse_model_config(text, "config.pbtxt");
  EXPECT_TRUE(config.ok()) << config.status();
  return unserved_settings(*config, one_input(), provider);
}

// Sets one field to something else than its default.
void set(Message& message, const FieldDescriptor& field) {
  const auto* reflection = message.GetReflection();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return field.is_repeated() ? reflection->AddInt32(&message, &field, 2)
                                 : reflection->SetInt32(&message, &field, 2);
    case FieldDescriptor::CPPTYPE_INT64:
      return field.is_repeated() ? reflection->AddInt64(&message, &field, 2)
                                 : reflection->SetInt64(&message, &field, 2);
    case FieldDescriptor::CPPTYPE_UINT32:
      return reflection->SetUInt32(&message, &field, 2);
    case FieldDescriptor::CPPTYPE_UINT64:
      return reflection->SetUInt64(&message, &field, 2);
    case FieldDescriptor::CPPTYPE_BOOL:
      return reflection->SetBool(&message, &field, true);
    case FieldDescriptor::CPPTYPE_ENUM:
      return reflection->SetEnumValue(&message, &field, 1);
    case FieldDescriptor::CPPTYPE_STRING:
      return field.is_repeated() ? reflection->AddString(&message, &field, "s")
                                 : reflection->SetString(&message, &field, "s");
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return reflection->AddDouble(&message, &field, 2);
    case FieldDescriptor::CPPTYPE_MESSAGE:
      field.is_repeated() ? (void)reflection->AddMessage(&message, &field)
                          : (void)reflection->MutableMessage(&message, &field);
      return;
    default:
      FAIL() << "no value for " << field.full_name();
  }
}

Message& below(Message& message, const FieldDescriptor& field) {
  const auto* reflection = message.GetReflection();
  return field.is_repeated() ? *reflection->AddMessage(&message, &field)
                             : *reflection->MutableMessage(&message, &field);
}

// Errors elsewhere, whatever is in them.
const std::set<std::string> kErrors = {"batch_input", "batch_output", "sequence_batching",
                                       "ensemble_scheduling", "model_transaction_policy"};

// Every field of the message and of those in it, one at a time; the paths of those that no note
// names.
void unnamed(const Descriptor& type, std::vector<const FieldDescriptor*>& path,
             std::set<std::string>& found) {
  for (int i = 0; i < type.field_count(); ++i) {
    if (kErrors.contains(type.field(i)->name())) continue;
    path.push_back(type.field(i));
    inference::ModelConfig config;
    Message* at = &config;
    std::string name;
    for (size_t p = 0; p + 1 < path.size(); ++p) {
      name += path[p]->name() + ".";
      at = &below(*at, *path[p]);
    }
    set(*at, *path.back());
    name += path.back()->name();
    if (unserved_settings(config, one_input(), "cpu").empty()) found.insert(name);
    const bool inside = path.back()->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
    if (inside && !path.back()->is_map()) unnamed(*path.back()->message_type(), path, found);
    path.pop_back();
  }
}

TEST(UnservedSettings, EveryFieldIsFollowedOrNamed) {
  std::vector<const FieldDescriptor*> path;
  std::set<std::string> found;
  unnamed(*inference::ModelConfig::descriptor(), path, found);
  EXPECT_THAT(
      found,
      ElementsAre("backend", "default_model_filename", "dynamic_batching",
                  "dynamic_batching.default_queue_policy",
                  "dynamic_batching.default_queue_policy.allow_timeout_override",
                  "dynamic_batching.default_queue_policy.max_queue_size", "input",
                  "input.data_type", "input.dims", "input.format", "input.name", "input.reshape",
                  "input.reshape.shape", "instance_group", "instance_group.name", "max_batch_size",
                  "model_warmup", "model_warmup.batch_size", "model_warmup.name", "name",
                  "optimization", "output", "output.data_type", "output.dims",
                  "output.label_filename", "output.name", "output.reshape", "output.reshape.shape",
                  "platform", "response_cache", "version_policy", "version_policy.all",
                  "version_policy.latest", "version_policy.latest.num_versions",
                  "version_policy.specific", "version_policy.specific.versions"));
}

TEST(UnservedSettings, NamesTheTensor) {
  EXPECT_THAT(
      notes_of("input { name: 'x' optional: true allow_ragged_batch: true } "
               "output { name: 'y' is_shape_tensor: true }"),
      ElementsAre(HasSubstr("input 'x': allow_ragged_batch: "), HasSubstr("input 'x': optional: "),
                  HasSubstr("output 'y': is_shape_tensor: ")));
}

TEST(UnservedSettings, SaysOfAListOnlyOnceWhatIsTheSame) {
  EXPECT_THAT(notes_of("instance_group { rate_limiter { priority: 1 } } "
                       "instance_group { rate_limiter { priority: 2 } }"),
              ElementsAre(HasSubstr("instance_group.rate_limiter: ")));
}

TEST(UnservedSettings, ATimeoutThatRequestsMayNotChangeIsOneThatTheyMay) {
  const std::string queue = "dynamic_batching { default_queue_policy { ";
  EXPECT_THAT(notes_of(queue + "default_timeout_microseconds: 5 } }"),
              ElementsAre(HasSubstr("allow_timeout_override")));
  EXPECT_THAT(notes_of(queue + "default_timeout_microseconds: 5 allow_timeout_override: true } }"),
              IsEmpty());
  EXPECT_THAT(notes_of(queue + "timeout_action: DELAY } }"), ElementsAre(HasSubstr("DELAY")));
}

TEST(UnservedSettings, WhatAWarmupHasMustFitTheModel) {
  const auto warmup = [](const std::string& input, const std::string& rest) {
    return notes_of("model_warmup { name: 'w' batch_size: 1 inputs { key: '" + input +
                    "' value { zero_data: true " + rest + " } } }");
  };
  EXPECT_THAT(warmup("x", "data_type: TYPE_FP32 dims: [ 5, 2 ]"), IsEmpty());
  EXPECT_THAT(warmup("z", "data_type: TYPE_FP32 dims: [ 5, 2 ]"),
              ElementsAre("model_warmup 'w': input 'z' is not in the model"));
  EXPECT_THAT(warmup("x", "data_type: TYPE_INT8 dims: [ 5, 2 ]"),
              ElementsAre(HasSubstr("has data_type TYPE_INT8, the model has TYPE_FP32")));
  for (const char* dims : {"[ 5, 3 ]", "[ 2 ]", "[ -1, 2 ]"}) {
    EXPECT_THAT(warmup("x", std::string("data_type: TYPE_FP32 dims: ") + dims),
                ElementsAre(HasSubstr("the model has [-1,2]")));
  }
}

TEST(UnservedSettings, WorkersHaveOneProvider) {
  EXPECT_THAT(notes_of("instance_group { kind: KIND_CPU }"), IsEmpty());
  EXPECT_THAT(notes_of("instance_group { kind: KIND_CPU }", "cuda"),
              ElementsAre(HasSubstr("workers.provider is cuda")));
  EXPECT_THAT(notes_of("instance_group { kind: KIND_GPU }"),
              ElementsAre(HasSubstr("workers.provider is cpu")));
}

}  // namespace
}  // namespace fermata
