// Bindings of Context, Store, Device, and of functions that describe the system.
#include <headrace/array.h>
#include <headrace/cancel.h>
#include <headrace/capabilities.h>
#include <headrace/context.h>
#include <headrace/device.h>
#include <nanobind/nanobind.h>

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "bind.h"
#include "bytes_view.h"
#include "errors.h"
#include "python_store.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace headrace::python {
namespace {

nb::object get_object(const Store& store, std::string_view key) {
  const std::string held(key);
  auto bytes = without_gil([&] { return store.get(held); });
  if (!bytes.ok() && bytes.status().code() == Code::kNotFound) return nb::none();
  const std::vector<std::byte> got = take(std::move(bytes));
  return nb::bytes(reinterpret_cast<const char*>(got.data()), got.size());
}

}  // namespace

void bind_context(nb::module_& module) {
  nb::class_<Context>(module, "Context")
      .def_static(
          "create",
          [](const std::string& engine, unsigned threads, std::size_t host_budget_bytes,
             std::size_t device_budget_bytes, std::size_t wave_bytes, unsigned waves, bool allow_direct,
             bool cache_reread, bool allow_mapped, std::size_t mapped_budget_bytes, std::size_t index_budget_bytes,
             std::size_t stored_budget_bytes, const std::string& placement_file, bool bind_threads) {
            ContextOptions options;
            options.engine = engine;
            options.threads = threads;
            if (host_budget_bytes != 0) options.host_budget_bytes = host_budget_bytes;
            if (device_budget_bytes != 0) options.device_budget_bytes = device_budget_bytes;
            if (wave_bytes != 0) options.wave_bytes = wave_bytes;
            options.waves = waves;
            options.allow_direct = allow_direct;
            options.cache_reread = cache_reread;
            options.allow_mapped = allow_mapped;
            options.mapped_budget_bytes = mapped_budget_bytes;
            options.index_budget_bytes = index_budget_bytes;
            if (stored_budget_bytes != 0) options.stored_budget_bytes = stored_budget_bytes;
            options.placement_file = placement_file;
            options.bind_threads = bind_threads;
            return take(without_gil([&] { return Context::create(options); }));
          },
          "engine"_a, "threads"_a, "host_budget_bytes"_a, "device_budget_bytes"_a, "wave_bytes"_a, "waves"_a,
          "allow_direct"_a, "cache_reread"_a, "allow_mapped"_a, "mapped_budget_bytes"_a, "index_budget_bytes"_a,
          "stored_budget_bytes"_a, "placement_file"_a, "bind_threads"_a)
      .def_prop_ro("engine_name", &Context::engine_name)
      .def_prop_ro("engine_report", &Context::engine_report)
      .def_prop_ro("threads", [](const Context& context) { return context.options().threads; });

  nb::class_<Device>(module, "Device")
      .def_static(
          "open", [](const std::string& name) { return take(without_gil([&] { return Device::open(name); })); },
          "name"_a)
      .def_prop_ro("name", [](const Device& device) { return device.name(); })
      .def_prop_ro("description", [](const Device& device) { return device.description(); })
      .def_prop_ro("note", [](const Device& device) { return device.note(); })
      .def_prop_ro("host_addressable", &Device::host_addressable);

  module.def("device_names", [] { return take(without_gil([] { return device_names(); })); });

  nb::class_<Cancel>(module, "Cancel")
      .def(nb::init<>())
      .def("ask", &Cancel::ask, nb::call_guard<nb::gil_scoped_release>())
      .def("asked", &Cancel::asked);

  nb::class_<Store>(module, "Store")
      .def_static(
          "open",
          [](const Context& context, const std::string& url,
             const std::vector<std::pair<std::string, std::string>>& options) {
            std::vector<StorageOption> given;
            given.reserve(options.size());
            for (const auto& [name, value] : options) given.push_back({name, value});
            return take(without_gil([&] { return Store::open(context, url, given); }));
          },
          "context"_a, "url"_a, "options"_a = std::vector<std::pair<std::string, std::string>>())
      .def_static(
          "of_object",
          [](const Context& context, nb::object object, const std::string& url) {
            auto store = std::make_shared<PythonStore>(std::move(object), url);
            return take(without_gil([&] { return Store::open(context, std::move(store)); }));
          },
          "context"_a, "object"_a, "url"_a, "A store that an object of Python's reads.")
      .def_prop_ro("url", &Store::url)
      .def("get", &get_object, "key"_a, "The object's bytes, or None where there is none.")
      .def(
          "put",
          [](const Store& store, const std::string& key, nb::handle value) {
            const BytesView view(value);
            check(without_gil([&] { return store.put(key, view.bytes()); }));
          },
          "key"_a, "value"_a, "Creates or replaces an object.");

  module.def("capabilities", [] {
    const Capabilities have = take(capabilities());
    nb::dict out;
    out["engines"] = have.engines;
    out["devices"] = have.devices;
    out["stores"] = have.stores;
    nb::list codecs;
    for (const CodecCapability& codec : have.codecs) {
      nb::dict row;
      row["name"] = codec.name;
      row["v3_names"] = codec.v3_names;
      row["v2_ids"] = codec.v2_ids;
      row["cpu"] = codec.cpu;
      row["gpu"] = codec.gpu;
      codecs.append(row);
    }
    out["codecs"] = codecs;
    return out;
  });
}

}  // namespace headrace::python
