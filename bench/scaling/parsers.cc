#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/document.h"
#include "fuzz/walk.h"
#include "model/model_config.h"
#include "model/npy.h"
#include "scaling/cases.h"
#include "serve/grpc/grpc_codec.h"
#include "serve/json/json_request.h"
#include "serve/json/operation_bodies.h"

namespace fermata::scaling {
namespace {

void read_json_infer(const std::string& json, std::optional<size_t> length) {
  const auto text = std::make_shared<std::string>(json);
  HeldBytes uncounted;
  (void)serve::decode_json_infer({*text, length, text}, serve::SharedMemory(), uncounted);
}

void read_document(const std::string& text, Document::Format format) {
  if (absl::StatusOr<Document> document = Document::parse(text, format); document.ok()) {
    (void)document->read(walk);
  }
}

std::string npy(size_t n) {
  std::string head = "{'descr': '<f4', 'fortran_order': False, 'shape': (" + number(n) + ",), }";
  head.resize(117, ' ');
  head += '\n';
  return std::string("\x93NUMPY\x01\x00\x76\x00", 10) + head + std::string(4 * n, '\0');
}

void read_grpc_infer(size_t n,
                     const std::function<void(inference::ModelInferRequest&, size_t)>& add) {
  const auto message = std::make_shared<inference::ModelInferRequest>();
  message->set_model_name("m");
  for (size_t i = 0; i < n; ++i) add(*message, i);
  measured([&] { (void)serve::decode_grpc_infer(message, serve::SharedMemory()); });
}

}  // namespace

void add_parser_cases(Cases& cases) {
  const auto add = [&cases](const char* name, size_t n, std::function<std::string(size_t)> text,
                            std::function<void(const std::string&)> read) {
    cases.push_back({name, n, [text, read](size_t count) {
                       const std::string made = text(count);
                       measured([&] { read(made); });
                     }});
  };
  const auto json = [](const std::string& text) { read_json_infer(text, std::nullopt); };
  add(
      "json_infer_data", 20'000,
      [](size_t n) {
        return R"({"inputs":[{"name":"x","shape":[)" + number(n) +
               R"(],"datatype":"FP32","data":[)" + repeated(n, number) + "]}]}";
      },
      json);
  add(
      "json_infer_inputs", 2'000,
      [](size_t n) {
        return R"({"inputs":[)" +
               repeated(n,
                        [](size_t i) {
                          return R"({"name":"x)" + number(i) +
                                 R"(","shape":[1],"datatype":"FP32","data":[1]})";
                        }) +
               "]}";
      },
      json);
  add(
      "json_infer_outputs", 1'000,
      [](size_t n) {
        return R"({"inputs":[],"outputs":[)" +
               repeated(n, [](size_t i) { return R"({"name":"y)" + number(i) + "\"}"; }) + "]}";
      },
      json);
  add(
      "json_infer_outputs_again", 5'000,
      [](size_t n) {
        return R"({"inputs":[],)" +
               repeated(n,
                        [](size_t i) { return R"("outputs":[{"name":"y)" + number(i) + "\"}]"; }) +
               "}";
      },
      json);
  add(
      "json_infer_parameters", 5'000,
      [](size_t n) {
        return R"({"parameters":{)" +
               repeated(n, [](size_t i) { return "\"p" + number(i) + "\":1"; }) +
               R"(},"inputs":[]})";
      },
      json);
  add(
      "json_infer_unknown_members", 5'000,
      [](size_t n) {
        return "{" + repeated(n, [](size_t i) { return "\"p" + number(i) + "\":1"; }) + "}";
      },
      json);
  add(
      "json_infer_nested", 5'000,
      [](size_t n) { return R"({"inputs":)" + std::string(n, '[') + std::string(n, ']') + "}"; },
      json);
  add(
      "binary_infer_inputs", 2'000,
      [](size_t n) {
        return R"({"inputs":[)" +
               repeated(
                   n,
                   [](size_t i) {
                     return R"({"name":"x)" + number(i) +
                            R"(","shape":[1],"datatype":"INT8","parameters":{"binary_data_size":1}})";
                   }) +
               "]}" + std::string(n, 'b');
      },
      [](const std::string& text) { read_json_infer(text, text.find_last_not_of('b') + 1); });
  const auto object = [](size_t n) {
    return "{" +
           repeated(
               n, [](size_t i) { return "\"key" + number(i) + "\": [1]"; }, ",\n") +
           "}";
  };
  add("document_json", 5'000, object,
      [](const std::string& text) { read_document(text, Document::Format::kJson); });
  add("document_yaml", 2'000, object,
      [](const std::string& text) { read_document(text, Document::Format::kYaml); });
  add(
      "document_nested", 5'000, [](size_t n) { return std::string(n, '[') + std::string(n, ']'); },
      [](const std::string& text) {
        read_document(text, Document::Format::kJson);
        read_document(text, Document::Format::kYaml);
      });
  add(
      "config_pbtxt", 2'000,
      [](size_t n) {
        return repeated(
            n,
            [](size_t i) {
              return "input { name: 'x" + number(i) +
                     "' data_type: TYPE_FP32 dims: 1 } parameters { key: '" + number(i) +
                     "' value { string_value: 'v' } }";
            },
            "\n");
      },
      [](const std::string& text) { (void)parse_model_config(text, "config"); });
  add("npy", 20'000, npy, [](const std::string& text) { (void)parse_npy(text, "file"); });
  const auto members = [](const char* before, const char* value) {
    return [before, value](size_t n) {
      return before + repeated(n, [value](size_t i) { return "\"p" + number(i) + "\":" + value; }) +
             std::string(std::count(before, before + std::strlen(before), '{'), '}');
    };
  };
  add("index_body", 5'000, members("{", "1"),
      [](const std::string& text) { (void)serve::read_index_body(text); });
  add("load_body", 2'000, members(R"({"parameters":{)", R"("v")"),
      [](const std::string& text) { (void)serve::read_load_body(text); });
  add("unload_body", 2'000, members(R"({"parameters":{)", "true"),
      [](const std::string& text) { (void)serve::read_unload_body(text); });
  add("register_body", 5'000, members(R"({"key":"/k","byte_size":1,"p":{)", "[]"),
      [](const std::string& text) { (void)serve::read_register_body(text); });
  cases.push_back({"grpc_infer_inputs", 2'000, [](size_t count) {
                     read_grpc_infer(count, [](inference::ModelInferRequest& message, size_t i) {
                       auto& input = *message.add_inputs();
                       input.set_name("x" + number(i));
                       input.set_datatype("INT8");
                       input.add_shape(1);
                       message.add_raw_input_contents("b");
                     });
                   }});
  cases.push_back({"grpc_infer_parameters", 2'000, [](size_t count) {
                     read_grpc_infer(count, [](inference::ModelInferRequest& message, size_t i) {
                       (*message.mutable_parameters())["p" + number(i)].set_int64_param(1);
                     });
                   }});
}

}  // namespace fermata::scaling
