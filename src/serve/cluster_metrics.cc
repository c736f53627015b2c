#include "serve/cluster_metrics.h"

namespace fermata::serve {
namespace {

void add_frontend(const engine::FrontendStatistics& frontend, Families& out) {
  const Labels labels = {{"frontend", frontend.name}};
  const auto of = [](uint64_t count) { return static_cast<double>(count); };
  out.gauge("fermata_frontend_connected", "1: the frontend is there", labels,
            frontend.there ? 1 : 0);
  out.counter("fermata_frontend_joins_total", "Times that a frontend came", labels,
              of(frontend.joined));
  out.counter("fermata_frontend_requests_total", "Requests that a frontend asked for", labels,
              of(frontend.requests));
  out.counter("fermata_frontend_replies_total", "Replies to a frontend", labels,
              of(frontend.replies));
  out.counter("fermata_frontend_bytes_total", "Bytes that crossed to and from a frontend",
              {{"frontend", frontend.name}, {"direction", "to"}}, of(frontend.sent));
  out.counter("fermata_frontend_bytes_total", "Bytes that crossed to and from a frontend",
              {{"frontend", frontend.name}, {"direction", "from"}}, of(frontend.received));
  out.counter("fermata_frontend_tensor_bytes_total", "Of these bytes, those of inputs and outputs",
              labels, of(frontend.tensors));
  out.gauge("fermata_frontend_clock_error_seconds",
            "How far a frontend's clock may be from what is known of it", labels,
            frontend.clock_error.seconds());
}

}  // namespace

void add_cluster(const engine::ClusterStatistics& cluster, Families& out) {
  for (const engine::HostStatistics& host : cluster.hosts) {
    const Labels labels = {{"host", host.name}, {"type", host.type}};
    const auto with = [&labels](const char* name, const char* value) {
      Labels more = labels;
      more.push_back({name, value});
      return more;
    };
    const auto of = [](uint64_t count) { return static_cast<double>(count); };
    out.gauge("fermata_host_workers", "Workers of a host that are in the pool", labels,
              host.workers);
    out.counter("fermata_host_joins_total", "Times that a host joined", labels, of(host.joined));
    for (const auto& [cause, count] : host.ends_by) {
      out.counter("fermata_host_ends_total", "Times that a host left or was lost, by why",
                  with("cause", cause.c_str()), of(count));
    }
    out.gauge("fermata_host_control_delay_seconds",
              "Bound on a message to the host and back: 99 of 100 take less", labels,
              host.control_delay.seconds());
    out.gauge("fermata_host_data_delay_seconds_per_byte", "The same on each byte of a batch",
              labels, host.nanos_per_byte * 1e-9);
    out.counter("fermata_host_bytes_total", "Bytes that crossed to and from a host",
                with("direction", "to"), of(host.sent));
    out.counter("fermata_host_bytes_total", "Bytes that crossed to and from a host",
                with("direction", "from"), of(host.received));
    out.counter("fermata_host_tensor_bytes_total", "Of these bytes, those of inputs and outputs",
                labels, of(host.tensors));
    out.gauge("fermata_host_clock_error_seconds",
              "How far the host's clock may be from what is known of it", labels,
              host.clock_error.seconds());
    out.counter("fermata_host_batches_total", "Batches that a host ran", labels, of(host.batches));
    out.counter("fermata_host_lost_batches_total", "Batches that were lost with a host", labels,
                of(host.lost));
  }
  for (const engine::FrontendStatistics& frontend : cluster.frontends) add_frontend(frontend, out);
  if (cluster.epoch > 0) {
    out.gauge("fermata_scheduler_epoch", "Of this scheduler, which is active", {},
              static_cast<double>(cluster.epoch));
  }
  for (const auto& [cause, count] : cluster.refused) {
    out.counter("fermata_cluster_refused_total", "Connections of parts that were refused, by why",
                {{"cause", cause}}, static_cast<double>(count));
  }
}

}  // namespace fermata::serve
