#include "job_file.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>

namespace headrace::bench {
namespace {

constexpr std::size_t kMaxJobFileBytes = std::size_t{1} << 20;

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

std::string_view trim(std::string_view text) {
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  return text;
}

// A comment starts the line or follows a blank, because file names may contain these characters.
std::string_view without_comment(std::string_view line) {
  for (std::size_t i = 0; i < line.size(); ++i) {
    if ((line[i] == ';' || line[i] == '#') && (i == 0 || is_blank(line[i - 1]))) return line.substr(0, i);
  }
  return line;
}

// ${NAME} is an environment variable; $pagesize, $ncpus and $mb_memory describe this machine. An unset variable is an
// error, since leaving it out would change a path.
Result<std::string> expanded(std::string_view line) {
  std::string out;
  while (!line.empty()) {
    const std::size_t dollar = std::min(line.find('$'), line.size());
    out += line.substr(0, dollar);
    line.remove_prefix(dollar);
    if (line.substr(0, 2) == "${") {
      const std::size_t end = line.find('}');
      if (end == std::string_view::npos || end == 2) {
        return Status(Code::kInvalidArgument, Layer::kApi, "a variable is written ${NAME}");
      }
      const std::string name(line.substr(2, end - 2));
      const char* value = std::getenv(name.c_str());
      if (value == nullptr) {
        return Status(Code::kInvalidArgument, Layer::kApi,
                      "the environment has no variable '" + name.substr(0, 80) + "'");
      }
      out += value;
      line.remove_prefix(end + 1);
      continue;
    }
    const long page = ::sysconf(_SC_PAGESIZE);
    const std::pair<std::string_view, std::uint64_t> words[] = {
        {"$pagesize", static_cast<std::uint64_t>(page)},
        {"$ncpus", static_cast<std::uint64_t>(::sysconf(_SC_NPROCESSORS_ONLN))},
        {"$mb_memory", static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<std::uint64_t>(page) >> 20}};
    const auto* word = std::find_if(std::begin(words), std::end(words),
                                    [&](const auto& w) { return line.substr(0, w.first.size()) == w.first; });
    if (word != std::end(words)) {
      out += std::to_string(word->second);
      line.remove_prefix(word->first.size());
    } else if (!line.empty()) {
      out += '$';  // part of filename_format, or of a file name
      line.remove_prefix(1);
    }
  }
  return out;
}

Status bad_line(const std::string& name, std::size_t number, const std::string& message) {
  return Status(Code::kInvalidArgument, Layer::kApi, message).with_key(name + " line " + std::to_string(number));
}

}  // namespace

Result<std::vector<JobOptions>> parse_job_file(std::string_view text, const std::string& name) {
  if (text.size() > kMaxJobFileBytes) return bad_line(name, 1, "the job file is larger than 1 MiB");
  std::vector<JobOptions> jobs;
  JobOptions global;
  JobOptions* current = nullptr;
  std::size_t number = 0;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view written = trim(without_comment(text.substr(0, end)));
    text.remove_prefix(std::min(end + 1, text.size()));
    ++number;
    if (written.empty()) continue;
    const auto whole = expanded(written);
    if (!whole.ok()) return bad_line(name, number, whole.status().message());
    const std::string_view line = trim(*whole);
    if (line.empty()) continue;
    if (line.find('\0') != std::string_view::npos) return bad_line(name, number, "the line contains a zero byte");
    if (line.front() == '[') {
      const std::string_view section = line.back() == ']' ? trim(line.substr(1, line.size() - 2)) : std::string_view();
      if (section.empty()) return bad_line(name, number, "a section is written [name]");
      if (section == "global") {
        current = &global;
      } else {
        jobs.push_back(global);
        current = &jobs.back();
        if (Status status = set_option(*current, "name", section); !status.ok()) {
          return bad_line(name, number, status.message());
        }
      }
      continue;
    }
    if (current == nullptr) return bad_line(name, number, "a key before the first [section]");
    const std::size_t equals = line.find('=');
    const std::string_view key = trim(line.substr(0, equals));
    const std::string_view value = equals == std::string_view::npos ? "" : trim(line.substr(equals + 1));
    Status status = set_option(*current, key, value, current == &global);
    if (!status.ok()) return bad_line(name, number, status.message());
  }
  if (jobs.empty())
    return bad_line(name, std::max<std::size_t>(number, 1), "the file has no job: no section but [global]");
  return jobs;
}

Result<std::vector<JobOptions>> jobs_from_arguments(std::span<const std::pair<std::string, std::string>> arguments,
                                                    std::vector<JobOptions> from_files) {
  std::vector<JobOptions> jobs = std::move(from_files);
  const bool have_files = !jobs.empty();
  JobOptions common;
  for (const auto& [key, value] : arguments) {
    if (key == "name" && !have_files) jobs.push_back(common);
    if (key == "name" && have_files) {
      return Status(Code::kInvalidArgument, Layer::kApi, "--name starts a job, but jobs are given by job files")
          .with_key("command line");
    }
    Status status;
    if (have_files) {
      for (JobOptions& job : jobs) {
        if (status.ok()) status = set_option(job, key, value);
      }
    } else {
      status = set_option(jobs.empty() ? common : jobs.back(), key, value);
    }
    if (!status.ok()) return std::move(status).with_key("command line");
  }
  if (jobs.empty()) {
    common.name = "job";
    jobs.push_back(std::move(common));
  }
  return jobs;
}

}  // namespace headrace::bench
