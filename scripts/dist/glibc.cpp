// What a program that is linked on a newer system lacks on glibc 2.28 and on libstdc++ of GCC 8.
#include <new>
extern "C" {
typedef void init(int, char **, char **);
extern init *__init_array_start[], *__init_array_end[];
// Constructors are called by __libc_start_main since glibc 2.34, and by a function of the program before.
static void construct(int argc, char **argv, char **env) {
  for (init **f = __init_array_start; f < __init_array_end; f++) (*f)(argc, argv, env);
}
__asm__(".symver start,__libc_start_main@GLIBC_2.2.5");
int start(int (*)(int, char **, char **), int, char **, init *, void (*)(), void (*)(), void *);
int __wrap___libc_start_main(int (*main)(int, char **, char **), int argc, char **argv, init *, void (*)(), void (*fini)(), void *stack) {
  return start(main, argc, argv, construct, nullptr, fini, stack);
}

__attribute__((visibility("hidden"))) char __libc_single_threaded = 0; // glibc 2.32
}
namespace std { __attribute__((visibility("hidden"))) void __throw_bad_array_new_length() { throw bad_array_new_length(); } } // GCC 11
