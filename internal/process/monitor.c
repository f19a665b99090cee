#ifdef __linux__
#include <sys/prctl.h>

__attribute__((constructor)) static void lengthen_slack(void) {
  prctl(PR_SET_TIMERSLACK, 2000000, 0, 0, 0); // nanoseconds
}
#endif
