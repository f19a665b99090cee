// Included before every C and C++ file of a distribution: binds what glibc 2.29 to 2.34 moved or changed to the
// versions that glibc 2.28 has. What is missing here, scripts/dist/build.sh names.
#ifndef __ASSEMBLER__
#define OLD(name) __asm__(".symver " #name "," #name "@GLIBC_2.2.5")
OLD(exp); OLD(log); OLD(pow);
OLD(dladdr); OLD(dlclose); OLD(dlerror); OLD(dlopen); OLD(dlsym);
OLD(pthread_attr_getstack); OLD(pthread_attr_getstacksize); OLD(pthread_create); OLD(pthread_getattr_np);
OLD(pthread_key_create); OLD(pthread_key_delete); OLD(pthread_once); OLD(pthread_setspecific); OLD(pthread_sigmask);
#endif
