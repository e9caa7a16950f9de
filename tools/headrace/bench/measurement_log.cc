#include "measurement_log.h"

#include <algorithm>
#include <ctime>
#include <span>

#include "output_file.h"

namespace headrace::bench {

void MeasurementLog::start(std::uint64_t now) {
  start_ = now;
  windows_[0].began = windows_[1].began = now;
  if (options_.unix_epoch) {
    timespec time{};
    ::clock_gettime(options_.epoch_clock, &time);
    epoch_ms_ = static_cast<std::uint64_t>(time.tv_sec) * 1000 + static_cast<std::uint64_t>(time.tv_nsec) / 1000000;
  }
  chunks_.reserve(kMaxChunks);
  if (options_.any()) chunks_.push_back(std::make_unique<Line[]>(kChunk));
}

MeasurementLog::Line* MeasurementLog::push(const Line& line) {
  if (lines_ == chunks_.size() * kChunk) {
    if (chunks_.size() == kMaxChunks) {
      ++dropped_;
      return nullptr;
    }
    chunks_.push_back(std::make_unique<Line[]>(kChunk));
  }
  Line* const kept = &chunks_[lines_ / kChunk][lines_ % kChunk];
  *kept = line;
  ++lines_;
  return kept;
}

void MeasurementLog::Window::add(const Window& other) {
  requests += other.requests;
  blocks += other.blocks;
  bytes += other.bytes;
  submit += other.submit;
  complete += other.complete;
  total += other.total;
  max_submit = std::max(max_submit, other.max_submit);
  max_complete = std::max(max_complete, other.max_complete);
  max_total = std::max(max_total, other.max_total);
}

void MeasurementLog::add(const MeasuredRequest& request) {
  if (!options_.any()) return;
  if (options_.average_seconds == 0) {
    Line line;
    line.time = epoch_ms_ + (request.ended - start_) / 1000000;
    line.bandwidth = static_cast<std::uint64_t>(static_cast<double>(request.bytes) * 1e9 / 1024 /
                                                static_cast<double>(std::max<std::uint64_t>(request.total, 1)));
    line.iops = request.blocks;
    line.submit = request.submit;
    line.complete = request.complete;
    line.total = request.total;
    line.bytes = request.bytes;
    line.offset = request.offset;
    line.write = request.write;
    push(line);
    return;
  }
  Window& window = windows_[request.write ? 1 : 0];
  const auto length = static_cast<std::uint64_t>(options_.average_seconds * 1e9);
  if (request.ended - window.began >= length) close_window(request.write, request.ended);
  Window one;
  one.requests = 1;
  one.blocks = request.blocks;
  one.bytes = request.bytes;
  one.submit = one.max_submit = request.submit;
  one.complete = one.max_complete = request.complete;
  one.total = one.max_total = request.total;
  window.add(one);
}

MeasurementLog::Line MeasurementLog::line_of(const Window& window, bool write, std::uint64_t now) const {
  const double seconds = static_cast<double>(std::max<std::uint64_t>(now - window.began, 1)) * 1e-9;
  Line line;
  line.time = epoch_ms_ + (now - start_) / 1000000;
  line.bandwidth = static_cast<std::uint64_t>(static_cast<double>(window.bytes) / 1024 / seconds);
  line.iops = static_cast<std::uint64_t>(static_cast<double>(window.blocks) / seconds);
  line.submit = options_.maximum ? window.max_submit : window.submit / window.requests;
  line.complete = options_.maximum ? window.max_complete : window.complete / window.requests;
  line.total = options_.maximum ? window.max_total : window.total / window.requests;
  line.write = write;
  return line;
}

void MeasurementLog::close_window(bool write, std::uint64_t now) {
  Window& window = windows_[write ? 1 : 0];
  if (window.requests > 0) last_[write ? 1 : 0] = {push(line_of(window, write, now)), window};
  window = Window();
  window.began = now;
}

void MeasurementLog::finish(std::uint64_t now) {
  if (!options_.any() || options_.average_seconds == 0) return;
  for (const bool write : {false, true}) {
    Window& window = windows_[write ? 1 : 0];
    LastLine& last = last_[write ? 1 : 0];
    const bool brief = static_cast<double>(now - window.began) < options_.average_seconds * 1e9 / 2;
    if (window.requests == 0 || last.line == nullptr || !brief) {
      close_window(write, now);
      continue;
    }
    last.window.add(window);
    const std::uint64_t time = last.line->time;  // keeps the lines in order of time
    *last.line = line_of(last.window, write, now);
    last.line->time = time;
    window = Window();
  }
}

Status MeasurementLog::write_one(const std::string& path, std::uint64_t Line::*value) const {
  cli::OutputFile output;
  HEADRACE_TRY(output.open(path));
  std::string text;
  for (std::size_t i = 0; i < lines_; ++i) {
    const Line& line = chunks_[i / kChunk][i % kChunk];
    text += std::to_string(line.time) + ", " + std::to_string(line.*value) + (line.write ? ", 1, " : ", 0, ") +
            std::to_string(line.bytes);
    if (options_.with_offset) text += ", " + std::to_string(line.offset);
    text += ", 0\n";
    if (text.size() < (std::size_t{1} << 20) && i + 1 < lines_) continue;
    HEADRACE_TRY(output.write(std::as_bytes(std::span(text.data(), text.size()))));
    text.clear();
  }
  return output.commit();
}

Status MeasurementLog::write(const std::string& job_name, unsigned thread) const {
  const std::string end = options_.per_job ? "." + std::to_string(thread) + ".log" : ".log";
  const auto one = [&](const std::optional<std::string>& name, const char* kind, std::uint64_t Line::*value) {
    if (!name) return Status();
    // As in fio: without a name, uses the job's name, in the working directory.
    return write_one((name->empty() ? job_name : *name) + kind + end, value);
  };
  HEADRACE_TRY(one(options_.bw, "_bw", &Line::bandwidth));
  HEADRACE_TRY(one(options_.iops, "_iops", &Line::iops));
  HEADRACE_TRY(one(options_.lat, "_lat", &Line::total));
  HEADRACE_TRY(one(options_.lat, "_clat", &Line::complete));
  return one(options_.lat, "_slat", &Line::submit);
}

}  // namespace headrace::bench
