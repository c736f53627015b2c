#include "engine/execute/openvino_runner.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "base/check.h"
#include "base/status.h"
#include "engine/execute/by_variant.h"
#include "engine/execute/openvino_api.h"
#include "model/dynamic_network.h"

namespace fermata::engine {
namespace {

// Which numbers it calculates with; the model's own unless the configuration names others.
constexpr const char* kPrecision = "INFERENCE_PRECISION_HINT";

// A model as its file has it.
struct Network {
  OvPtr<OvModel> model;
  FileSignature signature;
};
using NetworkPtr = std::shared_ptr<const Network>;

absl::StatusOr<FileTensor> read_port(const OvPort& port, std::string_view kind, size_t index) {
  const OpenVino& ov = openvino();
  FileTensor tensor;
  // Converters leave names out where their source has none.
  if (char* name = nullptr; ov.port_name(&port, &name) == 0 && name != nullptr) {
    tensor.name = name;
    ov.free(name);
  } else {
    tensor.name = fmt::format("{}_{}", kind, index);
  }
  uint32_t type = 0;
  RETURN_IF_ERROR(openvino_status(ov.port_type(&port, &type)));
  const auto datatype = from_openvino(type);
  if (!datatype || *datatype == DataType::kBytes) {
    return invalid("{} '{}' has {}, which is not served of OpenVINO models", kind, tensor.name,
                   datatype ? "texts" : fmt::format("OpenVINO's element type {}", type));
  }
  tensor.datatype = *datatype;
  OvPartialShape shape;
  RETURN_IF_ERROR(openvino_status(ov.port_shape(&port, &shape)));
  tensor.any_rank = shape.rank.least != shape.rank.most;
  for (int64_t i = 0; !tensor.any_rank && i < shape.rank.most; ++i) {
    tensor.shape.push_back(shape.dims[i].least == shape.dims[i].most ? shape.dims[i].most : -1);
  }
  ov.free_shape(&shape);
  tensor.symbols.resize(tensor.shape.size());
  return tensor;
}

using OvCountOf = int (*)(const OvModel*, size_t*);
using OvPortOf = int (*)(const OvModel*, size_t, OvPort**);

absl::StatusOr<std::vector<FileTensor>> read_ports(const OvModel& model, std::string_view kind,
                                                   OvCountOf count_of, OvPortOf port_of) {
  size_t count = 0;
  RETURN_IF_ERROR(openvino_status(count_of(&model, &count)));
  std::vector<FileTensor> tensors;
  for (size_t i = 0; i < count; ++i) {
    OvPort* port = nullptr;
    RETURN_IF_ERROR(openvino_status(port_of(&model, i, &port)));
    const OvPtr<OvPort> owned(port);
    ASSIGN_OR_RETURN(FileTensor tensor, read_port(*port, kind, i));
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

absl::StatusOr<NetworkPtr> read_network(const std::string& file) {
  const OpenVino& ov = openvino();
  auto network = std::make_shared<Network>();
  OvModel* raw = nullptr;
  RETURN_IF_ERROR(openvino_status(ov.core_read(ov.core, file.c_str(), nullptr, &raw)));
  network->model.reset(raw);
  ASSIGN_OR_RETURN(network->signature.inputs,
                   read_ports(*raw, "input", ov.model_inputs, ov.model_input));
  ASSIGN_OR_RETURN(network->signature.outputs,
                   read_ports(*raw, "output", ov.model_outputs, ov.model_output));
  return network;
}

// What the runners of one type share: files that were read, for as long as one of them has them.
class Networks {
 public:
  explicit Networks(WorkerType type) : type_(std::move(type)) {}

  absl::StatusOr<NetworkPtr> open(const Variant& variant) {
    if (absl::Status there = probe_openvino(type_); !there.ok()) {
      return invalid("{}: {}", variant.file, message(there));
    }
    ASSIGN_OR_RETURN(const auto dynamic, dynamic_network(variant.config));
    if (dynamic) {
      return invalid("{}: only ONNX models have stages and widths", variant.file);
    }
    const std::lock_guard lock(mutex_);
    std::weak_ptr<const Network>& known = by_weights_[variant.loads()];
    if (NetworkPtr network = known.lock()) return network;
    auto network = read_network(variant.file);
    if (!network.ok()) {
      return error(network.status().code(), "{}: {}", variant.file, message(network.status()));
    }
    known = *network;
    return *std::move(network);
  }

  // For one worker.
  absl::StatusOr<OvPtr<OvCompiled>> prepare(const Network& network, const Variant& variant) const {
    const OpenVino& ov = openvino();
    const std::string threads = std::to_string(type_.threads);
    const auto own = variant.config.parameters().find(kPrecision);
    const std::string precision =
        own == variant.config.parameters().end() ? "f32" : own->second.string_value();
    OvCompiled* raw = nullptr;
    const absl::Status prepared = openvino_status(ov.core_compile(
        ov.core, network.model.get(), "CPU", 8, &raw, "NUM_STREAMS", "1", "INFERENCE_NUM_THREADS",
        threads.c_str(), "ENABLE_CPU_PINNING", "NO", kPrecision, precision.c_str()));
    if (!prepared.ok()) {
      return error(prepared.code(), "{}: {}", variant.file, message(prepared));
    }
    return OvPtr<OvCompiled>(raw);
  }

 private:
  const WorkerType type_;
  std::mutex mutex_;
  absl::flat_hash_map<VariantId, std::weak_ptr<const Network>> by_weights_;
};

struct Prepared {
  NetworkPtr network;
  OvPtr<OvCompiled> compiled;
  OvPtr<OvRequest> request;
  bool ran = false;  // it has run, here or when it was tried; the running thread's own
};

// The place of a tensor in its file.
size_t place_of(const std::vector<FileTensor>& tensors, const std::string& name) {
  const auto it = std::find_if(tensors.begin(), tensors.end(),
                               [&](const FileTensor& tensor) { return tensor.name == name; });
  FERMATA_CHECK(it != tensors.end());
  return static_cast<size_t>(it - tensors.begin());
}

// Its memory is the network's, for its next run.
absl::StatusOr<Tensor> copy_of(const FileTensor& output, const OvTensor& given) {
  const OpenVino& ov = openvino();
  Tensor tensor{.name = output.name, .datatype = output.datatype};
  OvShape shape;
  RETURN_IF_ERROR(openvino_status(ov.tensor_shape(&given, &shape)));
  tensor.shape.assign(shape.dims, shape.dims + shape.rank);
  ov.free_dims(&shape);
  size_t size = 0;
  void* data = nullptr;
  RETURN_IF_ERROR(openvino_status(ov.tensor_bytes(&given, &size)));
  if (size > 0) RETURN_IF_ERROR(openvino_status(ov.tensor_data(&given, &data)));
  const auto* const bytes = static_cast<const std::byte*>(data);
  tensor.data = payload_of(std::vector<std::byte>(bytes, bytes + size));
  return tensor;
}

// A run cannot be stopped: the library heeds that only where another thread of its own runs it,
// which costs 10 us a batch.
class OpenVinoRunner : public ModelRunner {
 public:
  explicit OpenVinoRunner(std::shared_ptr<Networks> networks) : networks_(std::move(networks)) {}

  absl::Status load(std::shared_ptr<const Variant> variant) override {
    auto prepared = std::make_shared<Prepared>();
    ASSIGN_OR_RETURN(prepared->network, networks_->open(*variant));
    ASSIGN_OR_RETURN(prepared->compiled, networks_->prepare(*prepared->network, *variant));
    OvRequest* request = nullptr;
    RETURN_IF_ERROR(
        openvino_status(openvino().compiled_request(prepared->compiled.get(), &request)));
    prepared->request.reset(request);
    prepared->ran = variant->tried || variant->profile.measured();
    variants_.put(variant->id, std::move(prepared));
    return absl::OkStatus();
  }

  void unload(VariantId id) override { variants_.remove(id); }

  absl::StatusOr<std::vector<Tensor>> run(const WholeBatch& batch,
                                          std::vector<StageRun>& /*ran*/) override {
    const std::shared_ptr<Prepared> prepared = variants_.at(batch.variant);
    auto outputs = run_prepared(*prepared, batch);
    if (!outputs.ok()) return blame(outputs.status(), prepared->ran);
    prepared->ran = true;
    return outputs;
  }

  std::unique_ptr<ModelRunner> successor() const override {
    return std::make_unique<OpenVinoRunner>(networks_);
  }

 private:
  absl::StatusOr<std::vector<Tensor>> run_prepared(Prepared& prepared, const WholeBatch& batch) {
    const OpenVino& ov = openvino();
    OvRequest* const request = prepared.request.get();
    const FileSignature& signature = prepared.network->signature;
    std::vector<OvPtr<OvTensor>> given;
    for (const OnnxInput& input : *batch.inputs) {
      OvTensor* tensor = nullptr;
      const OvShape shape{static_cast<int64_t>(input.shape.size()),
                          const_cast<int64_t*>(input.shape.data())};
      RETURN_IF_ERROR(
          openvino_status(ov.tensor_over(ov.types[static_cast<size_t>(input.datatype)], shape,
                                         const_cast<std::byte*>(input.data.data()), &tensor)));
      given.emplace_back(tensor);
      RETURN_IF_ERROR(openvino_status(
          ov.request_set_input(request, place_of(signature.inputs, *input.name), tensor)));
    }
    RETURN_IF_ERROR(openvino_status(ov.request_infer(request)));
    std::vector<Tensor> outputs;
    for (const std::string& name : *batch.outputs) {
      const size_t place = place_of(signature.outputs, name);
      OvTensor* tensor = nullptr;
      RETURN_IF_ERROR(openvino_status(ov.request_get_output(request, place, &tensor)));
      const OvPtr<OvTensor> owned(tensor);
      ASSIGN_OR_RETURN(outputs.emplace_back(), copy_of(signature.outputs[place], *tensor));
    }
    return outputs;
  }

  const std::shared_ptr<Networks> networks_;
  ByVariant<Prepared> variants_;
};

class OpenVinoRunners : public ModelRunners {
 public:
  explicit OpenVinoRunners(WorkerType type)
      : networks_(std::make_shared<Networks>(std::move(type))) {}
  std::unique_ptr<ModelRunner> make() override {
    return std::make_unique<OpenVinoRunner>(networks_);
  }
  absl::StatusOr<std::vector<FileSignature>> open(const Variant& variant) override {
    ASSIGN_OR_RETURN(opened_, networks_->open(variant));
    return std::vector{opened_->signature};
  }

 private:
  const std::shared_ptr<Networks> networks_;
  NetworkPtr opened_;  // kept for the runners that are made
};

}  // namespace

absl::Status probe_openvino(const WorkerType& type) {
  if (type.provider != "cpu") {
    return invalid("workers.provider is '{}', but OpenVINO models run with cpu only",
                   type.provider);
  }
  return open_openvino(type.openvino).status();
}

std::unique_ptr<ModelRunners> make_openvino_runners(const WorkerType& type) {
  return std::make_unique<OpenVinoRunners>(type);
}

}  // namespace fermata::engine
