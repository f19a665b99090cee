// Package fault distinguishes errors that the user can correct from failures of the program. A command exits with
// another code for the first kind. An error type of another package joins them by a method UserFault() bool.
// It also knows errors after which the work can continue; a type joins those by a method Resumable() bool.
package fault

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"time"
)

// Error marks another error as one that the user can correct: a flag, a setting or an input file.
type Error struct{ err error }

// Error returns the text of the marked error.
func (e *Error) Error() string { return e.err.Error() }

// Unwrap returns the marked error.
func (e *Error) Unwrap() error { return e.err }

// UserFault returns true.
func (e *Error) UserFault() bool { return true }

// User marks err as an error that the user can correct. nil stays nil.
func User(err error) error {
	if err == nil {
		return nil
	}
	return &Error{err}
}

// Userf is [User] of fmt.Errorf.
func Userf(format string, args ...any) error { return &Error{fmt.Errorf(format, args...)} }

// IsUser reports whether the user can correct err: whether it, or an error that it wraps, has a method UserFault, and
// the machine is not what failed. A disk may be full or break wherever an input file is read or a result is written, so
// marks say nothing about it.
func IsUser(err error) bool {
	var e interface {
		error
		UserFault() bool
	}
	return errors.As(err, &e) && e.UserFault() && !IsFull(err) && !isAny(err, failing)
}

// IsFull reports whether err is, or wraps, the error of a disk without room.
func IsFull(err error) bool { return isAny(err, full) }

func isAny(err error, list []error) bool {
	return slices.ContainsFunc(list, func(e error) bool { return errors.Is(err, e) })
}

// IsResumable reports whether the work that ended with err can continue later: whether err is an interruption or a request
// to stop (context.Canceled), or it, or an error that it wraps, has a method Resumable.
func IsResumable(err error) bool {
	var e interface {
		error
		Resumable() bool
	}
	return errors.Is(err, context.Canceled) || errors.As(err, &e) && e.Resumable()
}

// UntilEnded returns a context that a signal cancels which ends a program in order: what a user, a system that shuts down
// or a closed terminal sends. A second signal ends the program at once, if a second or more later: a terminal and a
// program between both pass on the first. A program that was started to outlive its terminal (nohup) continues.
func UntilEnded() (ctx context.Context, stop func()) {
	list := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		list = append(list, syscall.SIGHUP)
	}
	ctx, stop = signal.NotifyContext(context.Background(), list...)
	context.AfterFunc(ctx, func() { time.AfterFunc(time.Second, stop) })
	return ctx, stop
}

// Open is os.Open of an input file. A pipe or a device is refused, unless a shell opened it, as in <(zcat pairs.gz): to open
// a pipe is to wait for a writer, and no signal ends this wait.
func Open(path string) (*os.File, error) {
	info, err := os.Stat(path)
	if err == nil && !info.IsDir() && !info.Mode().IsRegular() && filepath.Dir(path) != "/dev/fd" {
		return nil, Userf("%s is a pipe or a device, want a file", path)
	}
	return os.Open(path)
}

// ReadFile is os.ReadFile of what [Open] opens.
func ReadFile(path string) ([]byte, error) {
	f, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(f)
}
