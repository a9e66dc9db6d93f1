// The counters as Prometheus text: one metric after the other, each with its help, its type and a sample for every
// label that has counted something. A label without a count is left out, so a page is short and grows only with what a
// job uses.
#include "runtime/diagnosis/prometheus.h"

#include <spdlog/fmt/fmt.h>

#include <utility>

#include "runtime/base/dtype.h"

namespace rueda::core {
namespace {

/// The page under construction. `sample` belongs to the `metric` before it.
class Page {
 public:
  explicit Page(std::string labels) : labels_(std::move(labels)) {}

  void metric(const char* name, const char* help, const char* type = "counter") {
    name_ = name;
    text_ += fmt::format("# HELP rueda_{0} {1}\n# TYPE rueda_{0} {2}\n", name, help, type);
  }
  template <typename Value>
  void sample(Value value, const std::string& label = {}) {
    text_ += fmt::format("rueda_{}{{{}{}{}}} {}\n", name_, labels_, label.empty() ? "" : ",", label, value);
  }
  std::string take() { return std::move(text_); }

 private:
  const std::string labels_;
  const char* name_ = "";
  std::string text_;
};

/// The samples of one metric, one for each label that has counted something.
template <typename Counted, typename Label, typename Value>
void add_family(Page& page, const Counted& counted, Label&& label, Value&& value) {
  for (size_t i = 0; i < counted.size(); ++i) {
    if (const auto sample = value(counted[i]); sample != 0) page.sample(sample, label(i));
  }
}

}  // namespace

std::string prometheus_labels(int rank, int64_t worker, uint64_t plan) {
  const std::string label = fmt::format("rank=\"{}\"", rank);
  return plan == 0 ? label : fmt::format("{},worker=\"{}\",plan=\"{}\"", label, worker, plan);
}

std::string prometheus_text(const Counters& counters, const std::string& labels,
                            const std::function<std::string(uint8_t)>& algorithm_name,
                            const std::map<std::string, uint64_t>& memory) {
  Page page(labels);
  const auto kind = [](size_t i) { return fmt::format("kind=\"{}\"", name_of(static_cast<OpKind>(i))); };
  // Algorithms of several kinds of operation share a name, so the number in the table tells them apart.
  const auto algorithm = [&](size_t i) {
    return fmt::format("number=\"{}\",algorithm=\"{}\"", i, algorithm_name(static_cast<uint8_t>(i)));
  };
  page.metric("tensors_submitted_total", "Tensors taken from the caller.");
  page.sample(counters.submitted.value());
  page.metric("tensors_failed_total", "Tensors that ended with an error.");
  page.sample(counters.failed.value());
  page.metric("tensors_finished_total", "Tensors that ended well, by kind of operation.");
  add_family(page, counters.kinds, kind, [](const Counters::Kind& counted) { return counted.tensors.value(); });
  page.metric("bytes_total", "Bytes of these tensors on this rank.");
  add_family(page, counters.kinds, kind, [](const Counters::Kind& counted) { return counted.bytes.value(); });
  page.metric("batches_total", "Batches that ended well, by algorithm.");
  add_family(page, counters.algorithms, algorithm,
             [](const Counters::Algorithm& counted) { return counted.batches.value(); });
  page.metric("batch_bytes_total", "Bytes of these batches.");
  add_family(page, counters.algorithms, algorithm,
             [](const Counters::Algorithm& counted) { return counted.bytes.value(); });
  page.metric("run_seconds_total", "Time in which these batches ran.");
  add_family(page, counters.algorithms, algorithm,
             [](const Counters::Algorithm& counted) { return counted.time.seconds(); });
  page.metric("batched_tensors_total", "Tensors that got into a batch; over the batches: the fusion factor.");
  page.sample(counters.batched.value());
  page.metric("negotiation_seconds_total", "From enqueue to agreement, of all tensors together.");
  page.sample(counters.negotiation.seconds());
  page.metric("queue_seconds_total", "From agreement to start, of all batches together.");
  page.sample(counters.queue.seconds());
  page.metric("wait_seconds_total", "Time in which callers waited.");
  page.sample(counters.wait.seconds());
  page.metric("cache_hits_total", "Proposals by id.");
  page.sample(counters.cache_hits.value());
  page.metric("cache_misses_total", "Proposals in full.");
  page.sample(counters.cache_misses.value());
  page.metric("memory_bytes", "What the library holds.", "gauge");
  for (const auto& [of, bytes] : memory) page.sample(bytes, fmt::format("of=\"{}\"", of));
  return page.take();
}

}  // namespace rueda::core
