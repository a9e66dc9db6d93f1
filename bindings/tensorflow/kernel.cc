// Reads attributes through the C API, whose strings have no terminator and whose sizes come from a call of their own.
// Factors travel as text: an attribute of type float would cut them to single precision.
#include "bindings/tensorflow/kernel.h"

#include <algorithm>
#include <charconv>

#include "bindings/tensorflow/failure.h"

namespace rueda::tensorflow {
namespace {

/// Reads attributes of one op. After a failure all reads give the default.
class Attributes {
 public:
  explicit Attributes(TF_OpKernelConstruction* construction) : construction_(construction) {}

  ~Attributes() {
    if (!status_.ok()) api().OpKernelConstruction_Failure(construction_, status_.get());
  }

  int64_t integer(const char* name) {
    int64_t value = 0;
    if (status_.ok()) api().OpKernelConstruction_GetAttrInt64(construction_, name, &value, status_.get());
    return value;
  }

  double factor(const char* name) {
    const std::string text = string(name);
    double value = 1;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (status_.ok() && (error != std::errc() || end != text.data() + text.size())) {
      const std::string sentence = std::string(name) + " is \"" + text + "\", which is not a number";
      api().SetStatus(status_.get(), TfCode::kInvalidArgument, sentence.c_str());
    }
    return value;
  }

  std::vector<std::string> strings(const char* name) {
    const auto [count, bytes] = sizes(name);
    if (!status_.ok() || count <= 0) return {};
    std::vector<char*> values(static_cast<size_t>(count));
    std::vector<size_t> lengths(values.size());
    std::vector<char> storage(static_cast<size_t>(bytes) + 1);
    api().OpKernelConstruction_GetAttrStringList(construction_, name, values.data(), lengths.data(), count,
                                                 storage.data(), storage.size(), status_.get());
    std::vector<std::string> list;
    for (size_t i = 0; status_.ok() && i < values.size(); ++i) list.emplace_back(values[i], lengths[i]);
    return list;
  }

 private:
  struct Sizes {
    int32_t count;
    int32_t bytes;
  };

  Sizes sizes(const char* name) {
    Sizes found{0, 0};
    if (status_.ok()) {
      api().OpKernelConstruction_GetAttrSize(construction_, name, &found.count, &found.bytes, status_.get());
    }
    return found;
  }

  std::string string(const char* name) {
    std::string value(static_cast<size_t>(std::max(sizes(name).bytes, 0)), '\0');
    if (status_.ok() && !value.empty()) {
      api().OpKernelConstruction_GetAttrString(construction_, name, value.data(), value.size(), status_.get());
    }
    return value;
  }

  TF_OpKernelConstruction* construction_;
  ScopedStatus status_;
};

}  // namespace

Kernel* create_kernel(Kind kind, TF_OpKernelConstruction* construction) {
  auto* kernel = new Kernel;
  kernel->kind = kind;
  if (kind == Kind::kEpoch) return kernel;
  Attributes attributes(construction);
  kernel->process_set = static_cast<int32_t>(attributes.integer("process_set"));
  if (kind == Kind::kQuery) {
    kernel->question = attributes.integer("question");
    return kernel;
  }
  if (kind == Kind::kJoin) return kernel;
  kernel->names = attributes.strings("names");
  if (kind == Kind::kBroadcast) kernel->root = static_cast<int32_t>(attributes.integer("root"));
  if (kind == Kind::kAllreduce || kind == Kind::kReducescatter) {
    kernel->reduce_op = static_cast<int32_t>(attributes.integer("reduce_op"));
    kernel->codec = static_cast<int32_t>(attributes.integer("codec"));
    kernel->prescale = attributes.factor("prescale");
    kernel->postscale = attributes.factor("postscale");
  }
  return kernel;
}

void destroy_kernel(void* kernel) { delete static_cast<Kernel*>(kernel); }

}  // namespace rueda::tensorflow
