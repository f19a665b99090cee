// Reports every operation of libtorch to two functions in C as it begins and ends, also the operations that a backward
// pass runs inside of one call. It is beside the bindings because it needs libtorch's headers.
#include <ATen/SequenceNumber.h>
#include <ATen/record_function.h>

namespace {
void (*operation_begins)(const char *name, int64_t node);
void (*operation_ends)();
at::CallbackHandle handle = at::INVALID_CALLBACK_HANDLE;

std::unique_ptr<at::ObserverContext> begin(const at::RecordFunction &f) {
  operation_begins(f.name(), f.scope() == at::RecordScope::BACKWARD_FUNCTION ? f.seqNr() : -1);
  return nullptr;
}

void end(const at::RecordFunction &, at::ObserverContext *) { operation_ends(); }
} // namespace

extern "C" {
// popri_observe calls begins with the name of each operation and, for a step of a backward pass, the number of its node
// in the graph, else -1; and ends after it, on the operation's thread. Null ends it. No operation may be under way.
void popri_observe(void (*begins)(const char *, int64_t), void (*ends)()) {
  if (handle != at::INVALID_CALLBACK_HANDLE) at::removeCallback(handle);
  handle = at::INVALID_CALLBACK_HANDLE;
  if (!begins) return;
  operation_begins = begins;
  operation_ends = ends;
  handle = at::addGlobalCallback(
      at::RecordFunctionCallback(begin, end).scopes({at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION}));
}

// popri_next_node is the number that the thread's next node of a graph gets.
int64_t popri_next_node() { return (int64_t)at::sequence_number::peek(); }
}
