package sealing

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"popri/internal/fault"
	"popri/testkit/testfile"
)

// refusal checks that err is the user's mistake and names all of want.
func refusal(t *testing.T, what string, err error, want ...string) {
	t.Helper()
	if !fault.IsUser(err) {
		t.Errorf("%s: %v", what, err)
		return
	}
	for _, w := range want {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%s: %v, want %q in it", what, err, w)
		}
	}
}

func TestKeys(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	if err := GenerateKey(path); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the private key's file: %v, %v", info.Mode(), err)
	}
	before, _ := os.ReadFile(path)
	refusal(t, "a key that is there", GenerateKey(path), path, "there already")
	if after, _ := os.ReadFile(path); !bytes.Equal(before, after) {
		t.Error("the key was replaced")
	}
	old := filepath.Join(t.TempDir(), "old")
	testfile.Write(t, old, bytes.Replace(before, []byte("popri"), []byte("popri merger"), 1))
	if _, err := ReadPrivateKey(old); err != nil {
		t.Errorf("a key of an earlier version: %v", err)
	}
	_, err := ReadPrivateKey(path + PublicSuffix)
	refusal(t, "the public key for the private one", err, "public key", "want a popri private key")
	_, err = ReadPublicKey(path)
	refusal(t, "the private key for the public one", err, "private key")
	testfile.Write(t, path, bytes.Replace(before, []byte("1\n"), []byte("1\n!"), 1))
	_, err = ReadPrivateKey(path)
	refusal(t, "a damaged key", err, path)
	if strings.Contains(err.Error(), strings.Split(string(before), "\n")[1][:20]) {
		t.Error("the error quotes the key")
	}
	_, err = ReadPublicKey(path + "x")
	refusal(t, "no file", err, "no such file")
	testfile.Remove(t, path)
	refusal(t, "a public key that is there", GenerateKey(path), path+PublicSuffix, "there already")
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a private key was made for another public key (%v)", err)
	}
}

// TestExposed: nobody but the owner may read a private key, or the group of one that root lends.
func TestExposed(t *testing.T) {
	for _, c := range []struct {
		mode fs.FileMode
		lent bool
		want bool
	}{{0o600, false, false}, {0o400, true, false}, {0o440, false, true}, {0o440, true, false}, {0o640, true,
		false}, {0o660, true, true},
		{0o444, true, true}, {0o604, false, true}} {
		if got := exposedTo(c.mode, c.lent); got != c.want {
			t.Errorf("%04o, lent %v: exposed is %v", c.mode, c.lent, got)
		}
	}
	if runtime.GOOS == "windows" {
		return
	}
	path := filepath.Join(t.TempDir(), "key")
	if err := GenerateKey(path); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o640); err != nil {
		t.Fatal(err)
	}
	_, err := ReadPrivateKey(path)
	refusal(t, "a key that the group may read", err, path, "chmod 600")
}
