#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/catalog.h"
#include "engine/options.h"
#include "model/latency.h"
#include "model/profile.h"
#include "model/tensor.h"

namespace fermata::engine {

struct Route;    // engine/schedule/job.h
class Counters;  // engine/schedule/counters.h
struct VariantsService;
struct Composite;
struct EnsembleService;
class EnsembleModel;
class EvidenceModel;

// A service whose stages are services: requests run through them by a graph, or one or some of them
// answer (`choice`). Immutable: a reload of one of them makes a new one.
struct Pipeline {
  // Where a tensor comes from.
  struct Source {
    static constexpr uint32_t kRequest = ~uint32_t{0};
    uint32_t stage = kRequest;
    std::string tensor;
  };
  struct Input {
    std::string name;  // the member's
    Source from;
  };
  // One of a stage's variants, alone.
  struct Option {
    std::string name;   // the model's
    std::string route;  // "service/stage/model"
    double accuracy = 0;
    std::shared_ptr<const Variant> variant;
    std::shared_ptr<const LatencyTable> latency;  // as decisions know it
    uint32_t threads = 0;                         // of its dedicated replicas; 0: it has none
  };
  // When it runs: absent, always.
  struct When {
    Source from;
    Condition condition;
    // Of an output of its stage; false where that has no such numbers. O(elements).
    bool holds(const Tensor& tensor, bool by_item) const;
  };
  struct Stage {
    std::string name;
    std::string route;            // of its requests, which are counted under it: "service/stage"
    std::vector<uint32_t> after;  // earlier stages that it reads, ascending
    std::vector<Input> inputs;
    std::vector<std::string> outputs;  // of the member, that somebody reads; empty: all
    bool batches = false;              // the member does
    uint32_t part_items = 1;           // of what goes to it together: more runs in parts
    bool one_by_one = false;           // it does not, and gets items: they run apart
    bool items_first = false;          // its outputs get the dimension of items that they lack
    std::string fan_out;               // the output whose rows are the items that it makes, if any
    std::shared_ptr<const Variant> member;        // that its requests are for; null: an operator
    bool is_model = false;                        // and no service of several
    std::shared_ptr<const LatencyTable> latency;  // of a request alone; null: it is a pipeline
    std::shared_ptr<const Pipeline> pipeline;
    std::shared_ptr<const operators::Operator> op;  // runs instead of a service; else null
    std::shared_ptr<Counters> counters;             // of an operator's runs
    // Of a member that has variants, and of every model whose replicas are dedicated.
    std::vector<Option> options;
    bool dedicated = false;  // options run nowhere else while they are planned
    bool uniform = false;    // one option answers all items of a request
    std::optional<When> when;
    uint32_t readers = 0;  // as InferRequest has it

    // Whether the first dimension of its outputs counts items.
    bool gives_items() const { return batches || items_first || !fan_out.empty(); }
    const std::string& route_of(uint32_t option) const {
      return option < options.size() ? options[option].route : route;
    }
  };
  struct Output {
    TensorSpec spec;           // of one item, under the service's name for it
    std::vector<Source> from;  // the first whose stage has run
  };
  // What clients see: the service's name, version 1, its own signature.
  std::shared_ptr<const Variant> public_model;
  std::vector<Stage> stages;  // each after those that it reads; of a choice the members
  std::vector<Output> outputs;
  // Of a service of kind variants or ensemble that has services among its members: what it is
  // otherwise, whose variants are the members' public models. Null: a pipeline.
  std::shared_ptr<const Composite> choice;
  const VariantsService* variants = nullptr;  // one of the two is the choice itself
  const EnsembleService* ensemble = nullptr;
};

// Where the requests of a service go; null: it is not served.
using FindRoute = std::function<std::shared_ptr<const Route>(const std::string& service)>;
// Where what has no route of its own is counted.
using FindCounters = std::function<std::shared_ptr<Counters>(const std::string& name)>;

// `id` is the service's own. UNAVAILABLE where a stage's service is not served, INVALID_ARGUMENT
// where an input has no source, or one of another datatype or shape.
absl::StatusOr<std::shared_ptr<const Pipeline>> make_pipeline(const ServiceOptions& options,
                                                              const FindRoute& find,
                                                              const FindCounters& counters,
                                                              VariantId id, double quantile);

// What a choice is made from beside its members.
struct ChoiceParts {
  const std::map<std::string, AnswerProfile>* answers = nullptr;  // by model, never null
  EvidenceModel* evidence = nullptr;
  EnsembleModel* ensemble = nullptr;
};
// The same of kind variants or ensemble.
absl::StatusOr<std::shared_ptr<const Pipeline>> make_choice(const ServiceOptions& options,
                                                            const FindRoute& find, VariantId id,
                                                            double quantile,
                                                            const ChoiceParts& parts);
// INVALID_ARGUMENT where an item of this shape does not have what the condition compares.
absl::Status check_condition(const Condition& condition, const Shape& item);
Pipeline::Stage stage_of(const std::string& service, const std::string& name, const Route& member,
                         double quantile);

// The services and models that a service is made of, empty names for operators; none: it is a
// model, or models answer it.
std::vector<std::string> members_of(const ServiceOptions& service);

// "STAGE.TENSOR", or a tensor of the request. Of stages whose names begin alike the longest.
Pipeline::Source source_of(const std::string& text,
                           const std::vector<PipelineOptions::Stage>& stages);

// What one item takes at least, in the fastest variants, without any wait.
Duration fastest_path(const Pipeline& pipeline);

// Finds the stages whose outputs only models take, as they are: their Stage::readers.
void count_readers(Pipeline& pipeline);

// What the requests of a stage are counted under.
std::string stage_route(const std::string& service, const std::string& stage);

// Orders the stages so that each comes after those that it reads, and fills in `after`:
// INVALID_ARGUMENT where they read each other in a circle, or name a stage that there is not.
absl::Status order_stages(const std::string& service, PipelineOptions& options);
// The services that have members, those that others contain first. INVALID_ARGUMENT where one
// contains itself.
absl::StatusOr<std::vector<const ServiceOptions*>> composites_in_order(
    const std::vector<ServiceOptions>& services);

}  // namespace fermata::engine
