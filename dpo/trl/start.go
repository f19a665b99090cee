package trl

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"popri/dpo"
	"popri/internal/fault"
)

// stepMark begins the lines of standard output that report an update.
const stepMark = "popri-step "

// offline keeps the libraries from asking a server for models or sending what they were used for.
var offline = []string{"HF_HUB_OFFLINE=1", "HF_DATASETS_OFFLINE=1", "HF_HUB_DISABLE_TELEMETRY=1",
	"TOKENIZERS_PARALLELISM=false"}

// commandVariable names the command in the environment that starts Python in place of the installed one, such as
// "accelerate launch --config_file fsdp.yaml". The script and its folder follow.
const commandVariable = "POPRI_TRL"

// command starts Python, alone or by a launcher.
func (j *Job) command() []string {
	if len(j.Command) > 0 {
		return j.Command
	}
	if c := strings.Fields(os.Getenv(commandVariable)); len(c) > 0 {
		return c
	}
	if python, ok := Python("trl"); ok {
		return []string{python}
	}
	return []string{"python3"}
}

// start runs the script to its end. If ctx ends, or popri is killed, the process and its children end too.
func (j *Job) start(ctx context.Context) error {
	log, err := os.Create(filepath.Join(j.Dir, logFile))
	if err != nil {
		return fmt.Errorf("trl: %w", err)
	}
	defer log.Close()
	dir, err := filepath.Abs(j.Dir)
	if err != nil {
		return fmt.Errorf("trl: %w", err)
	}
	command := j.command()
	cmd := exec.CommandContext(ctx, command[0], slices.Concat(command[1:], []string{filepath.Join(dir, scriptFile), dir})...)
	cmd.Env = append(os.Environ(), offline...)
	cmd.Stderr = log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = 30 * time.Second
	out, err := cmd.StdoutPipe()
	if err != nil {
		return fmt.Errorf("trl: %w", err)
	}
	// The kernel sends the signal of a parent's death when the thread ends that started the process.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := cmd.Start(); err != nil {
		return fault.Userf("dpo.engine is \"trl\", but %s cannot be started: %w (the variable %s names the Python "+
			"that has TRL; make engines installs one)", command[0], err, commandVariable)
	}
	j.follow(out)
	err = cmd.Wait()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return fmt.Errorf("trl: %s: %w: %s", strings.Join(command, " "), err, j.lastWords())
	}
	return nil
}

// follow passes on the updates that the process reports. A line that is no report is ignored.
func (j *Job) follow(out io.Reader) {
	done, total := 0, j.Fit.Total()
	lines := bufio.NewReader(out)
	for {
		line, err := lines.ReadBytes('\n')
		if text, ok := bytes.CutPrefix(line, []byte(stepMark)); ok && j.Fit.OnStep != nil {
			var m dpo.Metrics
			if json.Unmarshal(text, &m) == nil && done < total {
				done++
				m.Step += j.Fit.Tuner.Optimizer.Done.Steps
				j.Fit.OnStep(m, done, total)
			}
		}
		if err != nil {
			return // the end, or an error that Wait reports
		}
	}
}

// lastWords are the end of what the process wrote to standard error: the script's own message where it gave one.
func (j *Job) lastWords() string {
	path := filepath.Join(j.Dir, logFile)
	b, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	for i := len(lines) - 1; i >= 0; i-- {
		if text, ok := strings.CutPrefix(lines[i], "popri: "); ok {
			return text
		}
	}
	return strings.Join(lines[max(0, len(lines)-3):], "\n") + "\n(all of it: " + path + ")"
}
