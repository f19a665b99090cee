// Operations with gradients of our own: a node of libtorch's graph whose arithmetic is done elsewhere.
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>

#include <cstring>

namespace {
using at::Tensor;
using torch::autograd::variable_list;

// backward gives gradients of the inputs of an operation: results, of those that are wanted, as new tensors. slopes
// are the gradients of its outputs, null where there is none. It returns null, or a text for free() that says what
// failed.
typedef char *(*backward)(int op, const double *numbers, Tensor **saved, Tensor **slopes, const char *wanted,
                          Tensor **results);
backward run;

struct Step : torch::autograd::Node {
  int op;
  std::vector<double> numbers;
  variable_list saved;
  bool freed = false;

  std::string name() const override { return "PopriBackward"; }

  void release_variables() override {
    saved.clear();
    freed = true;
  }

  variable_list apply(variable_list &&slopes) override {
    std::vector<Tensor *> kept, given, results(num_outputs(), nullptr);
    std::vector<char> wanted(num_outputs());
    for (auto &t : saved) kept.push_back(&t);
    for (auto &t : slopes) given.push_back(t.defined() ? &t : nullptr);
    for (size_t i = 0; i < wanted.size(); i++) wanted[i] = task_should_compute_output(i);
    if (freed) throw std::runtime_error("the graph was freed by an earlier backward pass");
    char *problem = run(op, numbers.data(), kept.data(), given.data(), wanted.data(), results.data());
    variable_list out(results.size());
    for (size_t i = 0; i < results.size(); i++)
      if (results[i]) {
        out[i] = std::move(*results[i]);
        delete results[i];
      }
    if (problem) {
      std::string text(problem);
      free(problem);
      throw std::runtime_error(text);
    }
    return out;
  }
};
} // namespace

extern "C" {
// popri_steps says who computes gradients.
void popri_steps(backward f) { run = f; }

// popri_step makes outputs, which were computed without a graph, the results of op on inputs. Its backward pass gets
// numbers and saved. It returns null, or a text for free() that says what failed.
char *popri_step(int op, const double *numbers, int count, Tensor **saved, int kept, Tensor **inputs, int from,
                 Tensor **outputs, int to) {
  try {
    variable_list in;
    bool needed = false;
    for (int i = 0; i < from; i++) {
      in.push_back(*inputs[i]);
      needed = needed || in.back().requires_grad();
    }
    if (!needed) return nullptr;
    std::shared_ptr<Step> step(new Step(), torch::autograd::deleteNode);
    step->op = op;
    step->numbers.assign(numbers, numbers + count);
    // An output among them must not own itself.
    for (int i = 0; i < kept; i++) step->saved.push_back(saved[i]->detach());
    step->set_next_edges(torch::autograd::collect_next_edges(at::TensorList(in)));
    for (int i = 0; i < to; i++) torch::autograd::set_history(*outputs[i], step);
    return nullptr;
  } catch (const std::exception &e) {
    return strdup(e.what());
  }
}
}
