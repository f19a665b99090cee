package main

import (
	"html"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"popri/accountant/guarantee"
	"popri/accountant/ledger"
	"popri/testkit/testfile"
	"popri/testkit/testworld"
)

// pages returns what each page and command says about a run, as plain text.
func pages(t *testing.T, dir, printed string) map[string]string {
	t.Helper()
	all := map[string]string{"run": printed}
	content := testfile.Read(t, filepath.Join(dir, "report.html"))
	all["report"] = html.UnescapeString(regexp.MustCompile(`(?s)<style>.*?</style>|<script.*?</script>|<[^>]*>`).ReplaceAllString(string(content),
		" "))
	_, all["audit"], _ = popri(t, "account", "audit", dir, "--trials", "0")
	_, all["audit --json"], _ = popri(t, "account", "audit", dir, "--trials", "0", "--json")
	return all
}

// TestPagesDoNotContradict reads every page about runs of many kinds: what one page says, none denies.
func TestPagesDoNotContradict(t *testing.T) {
	w := testworld.Make(t)
	secret := []string{"privacy.insecure_seeded_noise=false"}
	for name, c := range map[string]struct {
		set      []string
		evaluate bool
		after    func(dir string) error // what somebody does to the folder
	}{
		"plain":             {set: secret},
		"evaluated":         {set: append(secret, "eval.reference_private=false"), evaluate: true},
		"reference":         {set: secret, evaluate: true},
		"seeded":            {},
		"seeded, evaluated": {evaluate: true},
		"group":             {set: append(secret, "privacy.group=3")},
		"group, fixed": {set: append(secret, "privacy.group=2", "fed.sampling=fixed",
			"fed.clients_per_round=10")},
		"poisson":        {set: append(secret, "fed.sampling=poisson", "fed.clients_per_round=10")},
		"selection":      {set: append(secret, "dpo.best=fid"), evaluate: true},
		"round":          {set: append(secret, "trainer.select=fid"), evaluate: true},
		"round and step": {set: append(secret, "trainer.select=fid", "dpo.best=fid")},
		"diagnostics":    {set: append(secret, "privacy.unsafe_diagnostics=true")},
		"diagnostics, hidden": {set: append(secret, "privacy.unsafe_diagnostics=true"),
			after: func(dir string) error { return os.RemoveAll(filepath.Join(dir, "unsafe_diagnostics")) }},
		"evolution": {set: append(secret, "method=private_evolution", "dpo.best=fid"), evaluate: true},
		"asked once": {set: append(secret, "scoring.release=once", "generate.quote=relevant",
			"synthetic.public_texts=10"), evaluate: true},
		"forced delta": {set: append(secret, "privacy.delta=0.2", "privacy.force_delta=true")},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "run")
			args := []string{"run", "--config", w.File, "--quiet", "--out", dir, "--set", "trainer.rounds=1", "--set",
				"synthetic.texts=20"}
			for _, s := range c.set {
				args = append(args, "--set", s)
			}
			code, printed, errs := popri(t, args...)
			if code != 0 {
				t.Fatal(errs)
			}
			if c.evaluate {
				if code, _, errs := popri(t, "eval", "--run", dir, "--quiet"); code != 0 {
					t.Fatal(errs)
				}
			}
			if c.after != nil {
				if err := c.after(dir); err != nil {
					t.Fatal(err)
				}
			}
			if code, _, errs := popri(t, "report", dir); code != 0 {
				t.Fatal(errs)
			}
			facts, err := guarantee.Read(dir)
			if err != nil {
				t.Fatal(err)
			}
			all := pages(t, dir, printed)
			every := func(want string) {
				t.Helper()
				for page, text := range all {
					if !strings.Contains(text, want) && !(page == "run" && c.evaluate && want == guarantee.Reference) {
						t.Errorf("%s lacks %q:\n%s", page, want, text)
					}
				}
			}
			none := func(bad ...string) {
				t.Helper()
				for page, text := range all {
					for _, b := range bad {
						if strings.Contains(text, b) {
							t.Errorf("%s says %q:\n%s", page, b, text)
						}
					}
				}
			}
			none("adding or removing", "more or less", "add_or_remove", "%!") // the last is a bad format
			if facts.Protects() {
				if !strings.Contains(all["audit"], "Everything fits.") {
					t.Errorf("the audit ends with %q", all["audit"][max(0, len(all["audit"])-80):])
				}
				every("ε = 20")
				none("protects nobody", "nobody is protected", "would be")
			} else {
				none("are (ε, δ)-differentially private", "Everything fits", "The guarantee protects")
				every("came from the seed")
			}
			if facts.Record.Budget.Group > 1 {
				every("clients together, who may be one person")
				none("protects one client", "texts of one client", "for one client (")
			} else {
				none("clients together")
			}
			if c := facts.Record.Entries; len(c) > 0 && c[0].Sampling != ledger.Full {
				every("clients drawn from")
				none("30 clients' vectors")
			}
			chosen := false
			for use, key := range map[guarantee.Use]string{guarantee.Selection: "(dpo.best=fid)",
				guarantee.Rounds: "(trainer.select=fid)"} {
				if facts.Validation.Has(use) {
					chosen = true
					every(key)
				} else {
					none(key)
				}
			}
			if chosen {
				none("do not depend on them", "No validation or test client")
			} else {
				none("depends on them")
			}
			if facts.UnsafeDiagnostics {
				every("(privacy.unsafe_diagnostics). They are outside of ε")
			} else {
				none("computed from the clients' texts without noise (")
			}
			if facts.Reference {
				every(guarantee.Reference)
			} else {
				none(guarantee.Reference, "Gap closed")
			}
			if slices.Contains(c.set, "method=private_evolution") {
				if !strings.Contains(all["report"], "Private Evolution run") ||
					!strings.Contains(all["audit"], "256 degrees of freedom") {
					t.Errorf("the method's words are missing: %s %s", all["report"], all["audit"])
				}
				none("DPO", "POPri's", "POPri run", "adapters", "prompts ×", "preference", "clients' scores")
			}
			if facts.Record.Budget.ForcedDelta {
				every("privacy.force_delta")
				none("times smaller than 1/clients")
			} else {
				none("was forced")
			}
		})
	}
}

// The README and the commands about data state the relation that holds.
func TestRelationInDocuments(t *testing.T) {
	_, info, _ := popri(t, "data", "info", "godoc")
	all := map[string]string{"data info": info}
	for _, file := range []string{"README.md", "docs/accounting.md", "docs/security.md"} {
		all[file] = string(testfile.Read(t, filepath.Join("..", "..", file)))
	}
	for page, text := range all {
		if !strings.Contains(text, "taken away") {
			t.Errorf("%s does not say that a client's texts are taken away", page)
		}
		for _, bad := range []string{"one client more or less", "addition or removal of one client"} {
			// The page about accounting lists other programs' relations too.
			if strings.Contains(text, bad) && page != "docs/accounting.md" {
				t.Errorf("%s says %q", page, bad)
			}
		}
	}
}

// The page about attacks names tests that exist.
func TestSecurityPageNamesTests(t *testing.T) {
	page := testfile.Read(t, filepath.Join("..", "..", "docs", "attacks.md"))
	exist := map[string]bool{}
	err := filepath.WalkDir(filepath.Join("..", ".."), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		b, err := os.ReadFile(path)
		for _, m := range regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`).FindAllSubmatch(b, -1) {
			exist[string(m[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile("`((?:Test|Fuzz)[A-Za-z]+)`").FindAllSubmatch(page, -1)
	if len(named) < 20 {
		t.Errorf("%d tests are named", len(named))
	}
	for _, m := range named {
		if !exist[string(m[1])] {
			t.Errorf("there is no test %s", m[1])
		}
	}
}
