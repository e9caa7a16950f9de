#include <headrace/context.h>

#include <new>

#include "transfer/context/context_impl.h"

namespace headrace {

Result<Context> Context::create(const ContextOptions& options) {
  try {
    HEADRACE_TRY_ASSIGN(auto resources, transfer::Resources::create(options));
    return Context(std::make_shared<Impl>(std::move(resources)));
  } catch (const std::bad_alloc&) {
    return Status::out_of_memory();
  }
}

const ContextOptions& Context::options() const noexcept { return impl_->resources->options(); }

std::string Context::engine_name() const {
  auto service = impl_->resources->io();
  return service.ok() ? (*service)->engine().name : "none";
}

std::string Context::engine_report() const {
  auto service = impl_->resources->io();
  if (!service.ok()) return service.status().to_string();
  const io::EngineInfo& info = (*service)->engine();
  std::string bound = impl_->resources->near().note();
  if (!bound.empty()) bound += "\n";
  return info.name + ": " + (*service)->engine_features() + ", depth " + std::to_string(info.depth) + "\n" +
         (*service)->refused_engines() + impl_->resources->straight_report() + bound;
}

}  // namespace headrace
