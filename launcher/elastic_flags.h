#pragma once
#include "launcher/elastic_arguments.h"

namespace CLI {
class App;
}

namespace rueda::core::launcher {

/// Adds the flags of elastic jobs under their own heading. Parsing writes to `arguments`, which must live as long.
void add_elastic_flags(CLI::App& app, ElasticArguments& arguments);

}  // namespace rueda::core::launcher
