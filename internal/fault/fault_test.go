package fault_test

import (
	"errors"
	"fmt"
	"io/fs"
	"testing"

	"popri/configs"
	"popri/internal/fault"
	"popri/internal/parquetio"
	"popri/model/safetensors"
)

func TestIsUser(t *testing.T) {
	for _, err := range []error{
		fault.User(fs.ErrNotExist), fault.Userf("--rounds is %d", 0), &configs.Invalid{}, parquetio.ErrFormat,
		&safetensors.FormatError{},
	} {
		for _, e := range []error{err, fmt.Errorf("run: %w", err), errors.Join(fs.ErrClosed, err)} {
			if !fault.IsUser(e) {
				t.Errorf("%T %v is none of the user's", err, e)
			}
		}
	}
	full := &fs.PathError{Op: "write", Path: "out.parquet", Err: fullDisk[0]}
	for _, err := range []error{nil, fs.ErrNotExist, fmt.Errorf("run: %w", fs.ErrNotExist),
		fault.User(full), fault.Userf("data import: %w",
			errors.Join(fault.User(full), fs.ErrClosed)), fault.User(brokenDisk)} {
		if fault.IsUser(err) {
			t.Errorf("%v is the user's", err)
		}
	}
	for _, err := range fullDisk {
		if err = fault.User(&fs.PathError{Op: "write", Path: "out.parquet", Err: err}); !fault.IsFull(err) ||
			fault.IsUser(err) {
			t.Errorf("%v is not seen as a full disk", err)
		}
	}
	if fault.IsFull(fault.User(brokenDisk)) || fault.IsFull(nil) {
		t.Error("what is no full disk is seen as one")
	}
	if fault.User(nil) != nil {
		t.Error("no error became one")
	}
	if err := fault.Userf("folder: %w", fs.ErrNotExist); !errors.Is(err, fs.ErrNotExist) ||
		err.Error() != "folder: file does not exist" {
		t.Errorf("the cause is lost from %v", err)
	}
}
