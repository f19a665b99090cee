package rundir

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"popri/internal/atomicfile"
)

// Reader says who may read a file of a run's folder.
type Reader string

// The readers. What everybody may read reveals of the train clients what ε allows.
const (
	Everybody Reader = "everybody"
	// Evaluated is everybody, where validation and test clients need no protection: the file has figures of them without
	// noise, and the ε = ∞ row if eval.reference_private declares the train clients' texts to be public.
	Evaluated Reader = "everybody, if validation and test clients need no protection"
	// Operator is the person who runs the clients' machine.
	Operator Reader = "the operator"
	// Owner is the owner of the clients' texts.
	Owner Reader = "the owner of the data"
)

// File is a file of a run's folder, or a folder with all that is in it.
type File struct {
	// Name is a path in the run's folder, with * in place of a part. The name of a folder ends in a slash.
	Name   string
	Holds  string
	Reader Reader
}

// Files are all files of runs. A path has the row of the first Name that fits it.
var Files = []File{
	{Config, "every key with its value, and the versions of program and libraries. It marks the folder as a run's. It has " +
		"the number of clients, which is public, and the operator's paths", Everybody},
	{Inputs, "settings and hashes that the run began with, which `--resume` compares; a tag of the validation and test " +
		"clients under the user's key", Everybody},
	{Ledger, "what was released, with which noise, and the running total. It only grows. By its tag, the owner of the key " +
		"finds ledgers about the same texts", Everybody},
	{Ledger + ".head", "the hash of the ledger's last line", Everybody},
	{Ledger + ".lock", "which process writes the ledger", Operator},
	{Latest, "names the newest complete round", Everybody},
	{Events, "every event, one object a line. Memory, and the time of the stage `collect`, depend on the clients' texts",
		Operator},
	{"rounds/*/release.pending", "a noised sum that is not charged yet", Operator},
	{"rounds/*/release*.bin", "a noised sum, or a choice made of noised counts; votes for tokens have one each", Everybody},
	{"rounds/*/" + Metrics, "the round's figures; the distance of its samples to validation text", Evaluated},
	{"rounds/*/" + View, "the samples and the validation texts in two dimensions", Evaluated},
	{"rounds/*/" + Checksums, "hashes of the round's files, which `--resume` compares", Evaluated},
	{"rounds/*/" + Refusals, "how many uploads the aggregators refused", Operator},
	{"rounds/*/*.parquet", "prompts, samples, scores, pairs, kinds, selection", Everybody},
	{"rounds/*/adapter/", "the LoRA adapter after the round, in PEFT's format", Everybody},
	{"rounds/*/*.safetensors", "the optimizer's state, reference log-probabilities, pooled updates; the question that clients " +
		"elsewhere are asked", Everybody},
	{"rounds/*/" + Announcement, "what two aggregators were given of the question", Everybody},
	{"rounds/*/steps.jsonl", "the figures of each update, under TRL's names", Everybody},
	{"rounds/*/evals.jsonl", "the figures on held-out pairs (`dpo.eval_share`)", Everybody},
	{"rounds/*/*.json", "kinds and form of text that the release tells, and other settings of the round", Everybody},
	{Encoder, "the encoder that clients elsewhere embed their texts with", Everybody},
	{"model/", "the model that is trained at the clients", Everybody},
	{Mixes, "the sets that the synthetic set was chosen from (`synthetic.mix=validated`, by validation clients)", Everybody},
	{Synthetic, "the synthetic set: weighted public text (`finish` is `public`) and what the tuned model wrote", Everybody},
	{Adapter + "/", "the LoRA adapter that wrote the synthetic set, in PEFT's format", Everybody},
	{Small + "/README.md", "the small model's card, with its accuracy on test clients", Evaluated},
	{Small + "/", "the small model as a Hugging Face folder", Everybody},
	{Untuned, "what the model wrote before training, to compare with", Everybody},
	{Untrained, "what it writes without training, in as many rounds, with the same weights of texts, to compare with", Everybody},
	{ProtectedEval + "/rounds/*/release.pending", "a release that was drawn and not charged", Operator},
	{ProtectedEval + "/" + Ledger + ".lock", "the lock of its ledger", Operator},
	{ProtectedEval + "/", "noised accuracies of protected test clients, with a ledger of their own (`popri eval " +
		"--protect-test`)", Everybody},
	{Eval, "the accuracy of small models on test clients", Evaluated},
	{InContext, "the synthetic set as demonstrations for a language model", Evaluated},
	{Report, "all of it in one file that needs nothing else, with every sample to search", Evaluated},
	{"report-texts.html", "the samples, where there are very many", Evaluated},
	{Rungs, "figures of validation clients in an adaptive ablation", Evaluated},
	{Rung + "/", "what is made of the run while an adaptive ablation measures it", Evaluated},
	{Judged + "/", "what `popri judge` found, without noise", Owner},
	{Unsafe + "/", "sums without noise (`privacy.unsafe_diagnostics`)", Owner},
	{TensorBoard + "/", "the figures for TensorBoard, with the times of events", Operator},
	{MLflow, "the run's identifier on an MLflow server, which has the times of events", Operator},
	{OTel, "the identifier of the run's trace, which has times and memory", Operator},
	{Stop, "the request to end after the round; `--resume` continues", Operator},
}

// Find is the row of a path in a run's folder, with slashes. A path that no row names is not a run's.
func Find(name string) (File, bool) {
	i := slices.IndexFunc(Files, func(f File) bool {
		parts := strings.Split(name, "/")
		if folder, ok := strings.CutSuffix(f.Name, "/"); ok {
			n := strings.Count(folder, "/") + 1
			fits, _ := path.Match(folder, strings.Join(parts[:min(n, len(parts))], "/"))
			return fits && len(parts) > n
		}
		fits, _ := path.Match(f.Name, name)
		return fits
	})
	if i < 0 {
		return File{}, false
	}
	return Files[i], true
}

// Kept is a path that was not published, and why.
type Kept struct {
	Path string `json:"path"`
	Why  string `json:"why"`
}

// Split are the files of the run in dir: those for one of the readers, and the others.
func Split(dir string, readers ...Reader) (published []string, kept []Kept, err error) {
	err = filepath.WalkDir(dir, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, file)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		switch f, ok := Find(name); {
		case !ok || strings.Contains("/"+name, "/"+atomicfile.TempPrefix):
			kept = append(kept, Kept{name, "popri did not make it"})
		case !entry.Type().IsRegular():
			kept = append(kept, Kept{name, "it is no regular file"})
		case slices.Contains(readers, f.Reader):
			published = append(published, name)
		default:
			kept = append(kept, Kept{name, "it is for " + string(f.Reader)})
		}
		return nil
	})
	return published, kept, err
}

// Publish copies the files of the run in dir that are for one of the readers to a folder that is not there yet.
func Publish(dir, to string, readers ...Reader) (published []string, kept []Kept, err error) {
	if published, kept, err = Split(dir, readers...); err != nil {
		return nil, nil, err
	}
	if _, err := os.Lstat(to); err == nil {
		return nil, nil, fmt.Errorf("%s: %w", to, fs.ErrExist)
	}
	err = atomicfile.Folder(to, func(to string) error {
		for _, name := range published {
			target := filepath.Join(to, filepath.FromSlash(name))
			if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
				return err
			}
			if err := atomicfile.Copy(target, filepath.Join(dir, filepath.FromSlash(name))); err != nil {
				return err
			}
		}
		return nil
	})
	return published, kept, err
}
