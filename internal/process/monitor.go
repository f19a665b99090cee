package process

// monitor.c lets Go's monitor thread sleep for longer.
//
// The monitor thread (runtime.sysmon) wakes up every 20 microseconds as long as it finds threads that have been in a
// call to C for a while, so that other goroutines may run in their place. popri's threads are always in such calls, of
// about a millisecond, and there is a core for each of them: the monitor took a tenth of a core, and stopped the
// computation thousands of times a second. Linux lets a thread's timers expire late, by the thread's timer slack of 50
// microseconds. monitor.c makes it two milliseconds for the main thread before the runtime starts, and threads inherit
// it. So the monitor wakes up a tenth as often, timers may be two milliseconds late, and a goroutine may wait that much
// longer for a thread that is in a call to C.

import "C" // for monitor.c
