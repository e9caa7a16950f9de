#include "remote_references.h"

#include <headrace/byte_store.h>

#include <algorithm>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "http/remote_service.h"
#include "http/url.h"
#include "reference_file.h"
#include "store/part_store.h"
#include "store/range_store.h"

namespace headrace::store {
namespace {

constexpr std::size_t kMaxServers = 16;  // that references lead to, besides the file's own

Status refuse(Code code, std::string_view what, std::string_view url, std::string_view remedy) {
  return Status(
      code, Layer::kStore,
      std::string(what) + "; reference to '" + http::shown_url(url.substr(0, 200)) + "'; " + std::string(remedy));
}

// A URL, split at its server or bucket.
struct Place {
  std::string root;   // "https://host:port", "s3://bucket"
  std::string query;  // of web servers; may be secret
  std::string key;    // unescaped; not checked
};

bool is_web(std::string_view url) { return url.starts_with("http://") || url.starts_with("https://"); }

bool is_remote(std::string_view scheme) {
  return std::ranges::any_of(stores(), [&](const StoreRow& row) { return row.remote && scheme == row.scheme; });
}

Result<Place> split(std::string_view url) {
  Place out;
  if (is_web(url)) {
    HEADRACE_TRY_ASSIGN(const http::Url parsed, http::parse_url(url));
    out.root = parsed.origin();
    out.query = parsed.query;
    if (!http::unescape_path(std::string_view(parsed.path).substr(1), out.key)) {
      return Status(Code::kInvalidArgument, Layer::kStore, "the URL has a malformed escape");
    }
    return out;
  }
  const std::size_t slash = std::min(url.find('/', url.find("://") + 3), url.size());
  out.root = url.substr(0, slash);
  out.key = url.substr(std::min(slash + 1, url.size()));
  return out;
}

// The address that requests for objects of `root` go to.
Result<http::Url> server_of(const std::string& root, std::span<const StorageOption> options) {
  if (is_web(root)) return http::parse_url(root);
  HEADRACE_TRY_ASSIGN(const http::RemoteService service, http::find_remote_service(root, options));
  return service.dialect->place("");
}

// Options for servers that the user has not named: neither secrets nor addresses.
std::vector<StorageOption> anonymous_options(std::string_view root, std::span<const StorageOption> given) {
  std::vector<StorageOption> out;
  for (const StorageOption& option : given) {
    if (option.name.starts_with("cache_")) out.push_back(option);
  }
  if (!is_web(root)) out.push_back({"anon", "true"});
  return out;
}

// A server or bucket that references lead to.
struct Server {
  std::string root;
  std::shared_ptr<Store> store;  // null: it must not or cannot be read, for the reason in `refused`
  Status refused;
};

// An object named by references.
struct Target {
  std::size_t server = 0;
  std::string key;
  Status refused;  // not OK: it must not be read
};

class Shape final : public base::ReadShaper {
 public:
  explicit Shape(std::shared_ptr<Store> home) : home_(std::move(home)) {}
  base::ReadShape read_shape(bool) const noexcept override { return home_->read_shape(); }

 private:
  const std::shared_ptr<Store> home_;
};

class RemoteReferences final : public PartStore {
 public:
  RemoteReferences(std::string url, std::string folder, const StoreOptions& options)
      : PartStore(options.memory, false), url_(std::move(url)), folder_(std::move(folder)) {
    file_.memory = base::Charge(options.memory);
  }

  // `home`: the store of the reference file's server, and `name` the file's key there.
  Status read(std::shared_ptr<Store> home, const Place& place, const StoreOptions& options) {
    base::Charge document(options.memory);
    {
      HEADRACE_TRY_ASSIGN(const Bytes bytes, home->get(place.key, base::kLargeDocumentBytes, &document));
      const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
      HEADRACE_TRY(parse_reference_file(text, folder_, file_).with_key(place.key));
    }
    if (!file_.folder_exists) {
      const bool is_object = file_.folder_is_object;
      return Status(is_object ? Code::kInvalidArgument : Code::kNotFound, Layer::kStore,
                    is_object ? "a store must be a folder of the references, not one of their objects"
                              : "no such folder among the references of " + url_)
          .with_key(folder_);
    }
    HEADRACE_TRY_ASSIGN(home_server_, server_of(place.root, options.storage));
    servers_.push_back({place.root, std::move(home), {}});
    const std::size_t slash = place.key.rfind('/');
    const std::string directory = slash == std::string::npos ? "" : place.key.substr(0, slash + 1);
    // The rest of their memory is charged with the file's.
    HEADRACE_TRY(file_.memory.take(directory.size() * file_.targets.size(), "the names of references"));
    targets_.reserve(file_.targets.size());
    for (const std::string& text : file_.targets) {
      Target target;
      target.refused = resolve(text, directory, options, target);
      targets_.push_back(std::move(target));
    }
    return {};
  }

  std::string url() const override { return url_; }
  Result<std::vector<ListedName>> list(std::string_view prefix) override {
    HEADRACE_TRY_ASSIGN(std::vector<Entry> entries, file_.names.list(prefix));
    std::vector<ListedName> names;
    names.reserve(entries.size());
    for (Entry& entry : entries) names.push_back({std::move(entry.name), entry.is_directory});
    return names;
  }

 private:
  Status resolve(std::string_view text, const std::string& directory, const StoreOptions& options, Target& target) {
    const std::size_t mark = text.find("://");
    if (mark == std::string_view::npos) {
      if (text.starts_with('/')) {
        return refuse(Code::kPermission, "a remote reference file names a local file", text,
                      "download the reference file if you trust it");
      }
      target.key = directory + std::string(text);
    } else {
      if (!is_remote(text.substr(0, mark))) {
        return refuse(Code::kPermission, "a remote reference file may name objects of servers only", text,
                      "download the reference file if you trust it");
      }
      HEADRACE_TRY_ASSIGN(Place place, split(text));
      if (!place.query.empty()) {
        return refuse(Code::kUnsupported, "the URL of a reference has a query", text,
                      "put it into the reference file's own URL");
      }
      target.key = std::move(place.key);
      HEADRACE_TRY_ASSIGN(target.server, find_server(place.root, text, options));
    }
    if (valid_key(target.key)) return {};
    return refuse(Code::kInvalidArgument, "not a valid name of an object", text,
                  "components must be non-empty, not '.' or '..', without backslash");
  }

  Result<std::size_t> find_server(const std::string& root, std::string_view text, const StoreOptions& options) {
    for (std::size_t i = 0; i < servers_.size(); ++i) {
      if (servers_[i].root != root) continue;
      if (!servers_[i].refused.ok()) return Status(servers_[i].refused);
      return i;
    }
    if (servers_.size() > kMaxServers) {
      return refuse(Code::kUnsupported, "references lead to more than 16 servers or buckets", text,
                    "split the reference file");
    }
    Server server{root, nullptr, {}};
    server.refused = open_server(server, text, options);
    servers_.push_back(server);
    if (!server.refused.ok()) return Status(server.refused);
    return servers_.size() - 1;
  }

  Status open_server(Server& server, std::string_view text, const StoreOptions& options) {
    // The same server as the file's own, with another bucket in the path.
    const auto own = is_web(server.root) ? Result<http::Url>(Status(Code::kNotFound, Layer::kStore, "another server"))
                                         : server_of(server.root, options.storage);
    const std::vector<StorageOption> anonymous = anonymous_options(server.root, options.storage);
    StoreOptions given = options;
    given.opens_archives = false;
    const bool same = own.ok() && own->origin() == home_server_.origin();
    if (!same) {
      given.storage = anonymous;
      HEADRACE_TRY_ASSIGN(const http::Url address, server_of(server.root, anonymous));
      if (home_server_.tls && !address.tls) {
        return refuse(Code::kPermission, "a reference leads from https to http", text, "name the object by https");
      }
      if (http::is_link_local(address) ||
          (http::may_be_this_machine(address) && !http::may_be_this_machine(home_server_))) {
        return refuse(Code::kPermission, "a reference leads to this machine or a link-local address", text,
                      "serve the reference file from there as well");
      }
    }
    HEADRACE_TRY_ASSIGN(server.store, open_store(server.root, given));
    return {};
  }

  Status locate(std::string_view key, Part& out) const noexcept override {
    const std::uint32_t number = file_.names.find(key);
    if (number == NameIndex::kNone) return not_found_;
    const Reference& reference = file_.references[number];
    if (reference.target == Reference::kInline) {
      out.memory = std::as_bytes(std::span(file_.text)).subspan(reference.offset, reference.length);
      out.bytes = reference.length;
      return {};
    }
    const Target& target = targets_[reference.target];
    if (!target.refused.ok()) return target.refused;
    out.store = servers_[target.server].store->ranges();
    out.key = target.key;
    out.begin = reference.offset;
    out.bytes = reference.length == Reference::kToTheEnd ? Part::kToTheEnd : reference.length;
    out.number = reference.target;
    return {};
  }
  Status missing(const Part& part) const noexcept override {
    try {
      return Status(Code::kIo, Layer::kStore,
                    "the object '" + targets_[part.number].key + "', which a reference names, is missing");
    } catch (const std::bad_alloc&) {
      return Status::out_of_memory();
    }
  }

  const std::string url_, folder_;
  ReferenceFile file_;
  http::Url home_server_;
  std::vector<Server> servers_;  // the first is the reference file's own
  std::vector<Target> targets_;  // as in file_
  const Status not_found_{Code::kNotFound, Layer::kStore, "no such object"};
};

// Throws std::bad_alloc.
Result<std::shared_ptr<Store>> open_file(std::string_view url, const StoreOptions& options) {
  const std::size_t end = end_of_component(url, ".json");
  const std::size_t path_end = std::min(url.find_first_of("?#"), url.size());
  if (!is_remote(url.substr(0, url.find("://"))) || end == std::string_view::npos) {
    return Status(
        Code::kInvalidArgument, Layer::kStore,
        "the URL names no reference file; " + http::shown_url(url) + "; its path needs a component that ends in .json");
  }
  HEADRACE_TRY_ASSIGN(const Place place, split(std::string(url.substr(0, end)) + std::string(url.substr(path_end))));
  HEADRACE_TRY(check_key(place.key));
  std::string folder;
  if (std::string_view rest = url.substr(end, path_end - end); rest.size() > 1) {
    rest.remove_prefix(1);
    while (rest.ends_with('/')) rest.remove_suffix(1);
    folder = rest;
    if (is_web(url) && !http::unescape_path(rest, folder)) folder = "..";  // which no key can have
    if (!folder.empty()) HEADRACE_TRY(check_key(folder));
  }
  StoreOptions plain = options;
  plain.opens_archives = false;
  HEADRACE_TRY_ASSIGN(auto home, open_store(place.root + (place.query.empty() ? "" : "/?" + place.query), plain));
  auto references =
      std::make_shared<RemoteReferences>("reference://" + http::shown_url(url), std::move(folder), options);
  HEADRACE_TRY(references->read(home, place, options));
  return std::shared_ptr<Store>(
      std::make_shared<RangeStore>(std::move(references), std::make_shared<Shape>(home), home->read_shape().steady));
}

}  // namespace

Result<std::shared_ptr<Store>> open_remote_references(std::string_view url, const StoreOptions& options) {
  try {
    return open_file(url, options);
  } catch (const std::bad_alloc&) {
    return Status::out_of_memory();
  }
}

}  // namespace headrace::store
