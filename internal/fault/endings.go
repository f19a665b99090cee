package fault

import (
	"os"
	"os/signal"
	"syscall"
)

// Endings are the signals that end a program in order: what a user, a system that shuts down or a closed terminal
// sends. A program that was started to outlive its terminal (nohup) goes on.
func Endings() []os.Signal {
	list := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		list = append(list, syscall.SIGHUP)
	}
	return list
}
