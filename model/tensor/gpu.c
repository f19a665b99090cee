#define _GNU_SOURCE
#include "torch.h"
#include "profile.h"
#include <dlfcn.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Compiles kernels.cu for the GPU that is there, by NVRTC, which comes with a libtorch with CUDA, and launches them on
// the stream of libtorch's operations. Both libraries are looked up at run time: a program without a GPU has neither.

typedef struct CUctx *context;
typedef struct CUfunc *function;

static struct {
  int (*init)(unsigned);
  int (*device)(int *, int);
  int (*attribute)(int *, int, int);
  int (*retain)(context *, int);
  int (*current)(context *);
  int (*set)(context);
  int (*load)(void **, const void *);
  int (*function)(function *, void *, const char *);
  int (*launch)(function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **,
                void **);
  int (*memory)(size_t *, size_t *);
} cuda;

static struct {
  int (*create)(void **, const char *, const char *, int, const char *const *, const char *const *);
  int (*compile)(void *, int, const char *const *);
  int (*log_size)(void *, size_t *);
  int (*log)(void *, char *);
  int (*size)(void *, size_t *);
  int (*code)(void *, char *);
} nvrtc;

static const char *names[] = {
#define NAME(name, params) #name,
    GPU_KERNELS(NAME)};
static function functions[GPU_COUNT];
static context at;
static int generation;  // the first number of the compute capability
static int64_t memory; // in bytes, all of it; 0 if that is not known
static char problem[4096];

enum { COMPUTE_MAJOR = 75, COMPUTE_MINOR = 76 }; // of CUdevice_attribute

static int find(void *library, const char *name, void *to) {
  *(void **)to = dlsym(library, name);
  if (!*(void **)to) snprintf(problem, sizeof problem, "%s is missing", name);
  return *(void **)to != NULL;
}

static int failed(const char *what, int code) {
  if (code) snprintf(problem, sizeof problem, "%s: CUDA's error %d", what, code);
  return code;
}

static char *compiled(const char *source, int major, int minor) {
  char arch[64];
  void *program;
  size_t size = 0;
  snprintf(arch, sizeof arch, "--gpu-architecture=sm_%d%d", major, minor);
  const char *options[] = {arch, "--std=c++17"};
  if (failed("nvrtcCreateProgram", nvrtc.create(&program, source, "kernels.cu", 0, NULL, NULL))) return NULL;
  if (nvrtc.compile(program, 2, options)) {
    char *log = nvrtc.log_size(program, &size) ? NULL : malloc(size + 1);
    if (log && !nvrtc.log(program, log)) snprintf(problem, sizeof problem, "NVRTC: %.3000s", log);
    free(log);
    return NULL;
  }
  if (failed("nvrtcGetCUBINSize", nvrtc.size(program, &size))) return NULL;
  char *code = malloc(size);
  if (!code || failed("nvrtcGetCUBIN", nvrtc.code(program, code))) return NULL;
  return code;
}

// NVRTC opens a second library by its name alone, which finds it where it is open already.
static void open_builtins(void) {
  Dl_info of;
  glob_t found;
  char pattern[4096];
  if (!dladdr((void *)nvrtc.compile, &of) || !strrchr(of.dli_fname, '/')) return;
  int length = (int)(strrchr(of.dli_fname, '/') - of.dli_fname);
  snprintf(pattern, sizeof pattern, "%.*s/libnvrtc-builtins.so*", length, of.dli_fname);
  if (glob(pattern, 0, NULL, &found)) return;
  for (size_t i = 0; i < found.gl_pathc; i++) dlopen(found.gl_pathv[i], RTLD_NOW);
  globfree(&found);
}

static int made(const char *source) {
  void *library = dlopen("libcaffe2_nvrtc.so", RTLD_NOW); // it needs NVRTC and the driver's library
  if (!library) {
    snprintf(problem, sizeof problem, "%s", dlerror());
    return 0;
  }
  if (!find(library, "cuInit", &cuda.init) || !find(library, "cuDeviceGet", &cuda.device) ||
      !find(library, "cuDeviceGetAttribute", &cuda.attribute) ||
      !find(library, "cuDevicePrimaryCtxRetain", &cuda.retain) || !find(library, "cuCtxGetCurrent", &cuda.current) ||
      !find(library, "cuCtxSetCurrent", &cuda.set) || !find(library, "cuModuleLoadData", &cuda.load) ||
      !find(library, "cuModuleGetFunction", &cuda.function) || !find(library, "cuLaunchKernel", &cuda.launch) ||
      !find(library, "cuMemGetInfo_v2", &cuda.memory) || !find(library, "nvrtcCreateProgram", &nvrtc.create) ||
      !find(library, "nvrtcCompileProgram", &nvrtc.compile) ||
      !find(library, "nvrtcGetProgramLogSize", &nvrtc.log_size) ||
      !find(library, "nvrtcGetProgramLog", &nvrtc.log) || !find(library, "nvrtcGetCUBINSize", &nvrtc.size) ||
      !find(library, "nvrtcGetCUBIN", &nvrtc.code))
    return 0;
  int device, minor;
  if (failed("cuInit", cuda.init(0)) || failed("cuDeviceGet", cuda.device(&device, 0)) ||
      failed("cuDeviceGetAttribute", cuda.attribute(&generation, COMPUTE_MAJOR, device)) ||
      failed("cuDeviceGetAttribute", cuda.attribute(&minor, COMPUTE_MINOR, device)) ||
      failed("cuDevicePrimaryCtxRetain", cuda.retain(&at, device)) || failed("cuCtxSetCurrent", cuda.set(at)))
    return 0;
  open_builtins();
  void *module;
  char *code = compiled(source, generation, minor);
  if (!code) return 0;
  int bad = failed("cuModuleLoadData", cuda.load(&module, code));
  free(code);
  for (int i = 0; i < GPU_COUNT && !bad; i++)
    bad = failed(names[i], cuda.function(&functions[i], module, names[i]));
  size_t left, all;
  if (!cuda.memory(&left, &all)) memory = (int64_t)all;
  return !bad;
}

// popri_gpu_make compiles the kernels for the first GPU. It returns null, or what is in the way.
const char *popri_gpu_make(const char *source) {
  if (made(source)) return NULL;
  if (!*problem) snprintf(problem, sizeof problem, "out of memory");
  return problem;
}

// popri_gpu_launch begins a kernel, whose name in a profile is shown, on as many blocks of threads, after what libtorch
// has begun. It returns CUDA's error.
int popri_gpu_launch(const char *shown, int kernel, const void *p, int64_t n, int64_t blocks,
                     int threads) {
  OPERATION(shown);
  context now = NULL;
  int code = cuda.current(&now);
  if (!code && now != at) code = cuda.set(at);
  void *arguments[] = {(void *)p, &n};
  if (!code)
    code = cuda.launch(functions[kernel], (unsigned)blocks, 1, 1, (unsigned)threads, 1, 1, 0, NULL, arguments, NULL);
  return code;
}

// popri_gpu_generation is the first number of the compute capability.
int popri_gpu_generation(void) { return generation; }

// popri_gpu_used is the memory of the GPU that is taken, or 0.
int64_t popri_gpu_used(void) {
  size_t left, all;
  context now = NULL;
  if (cuda.current(&now) || (now != at && cuda.set(at)) || cuda.memory(&left, &all)) return 0;
  return (int64_t)(all - left);
}

// popri_gpu_memory is the memory of the GPU, or 0.
int64_t popri_gpu_memory(void) { return memory; }
