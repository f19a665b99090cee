package jobs

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"popri/internal/fault"
	"popri/testkit/testfile"
)

// recorded is an answer of Ray 2.60, with other paths and addresses.
func recorded(t *testing.T, name string) []byte {
	t.Helper()
	b := testfile.Read(t, filepath.Join("testdata", "ray", name))
	return b
}

// rayServer answers as Ray did. A name that it has heard is refused.
func rayServer(t *testing.T) (*Ray, *[]string) {
	t.Helper()
	var heard []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/api/jobs/" || r.Header.Get("Authorization") != "Bearer x" {
			http.NotFound(w, r)
			return
		}
		if r.Method == http.MethodGet {
			w.Write(recorded(t, "list.json"))
			return
		}
		b, err := io.ReadAll(r.Body)
		var request struct {
			ID         string `json:"submission_id"`
			Entrypoint string
		}
		if err != nil || json.Unmarshal(b, &request) != nil || request.Entrypoint == "" {
			t.Errorf("Ray is sent %s", b)
		}
		if slices.Contains(heard, request.ID) {
			w.WriteHeader(http.StatusInternalServerError)
			w.Write(recorded(t, "exists.txt"))
			return
		}
		heard = append(heard, request.ID)
		io.WriteString(w, strings.ReplaceAll(string(recorded(t, "submitted.json")), "popri-test-1-0", request.ID))
	}))
	t.Cleanup(server.Close)
	t.Setenv(rayAddress, server.URL+"/")
	t.Setenv(rayHeaders, `{"Authorization": "Bearer x"}`)
	r, err := newRay()
	if err != nil {
		t.Fatal(err)
	}
	return r, &heard
}

func TestRay(t *testing.T) {
	r, heard := rayServer(t)
	a := awkward(t)
	s, err := a.Write(r, []int{0, 1, 2, 3, 4, 5})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Submit(t.Context(), &s); err != nil || s.ID != "popri-test-1" || len(*heard) != 6 {
		t.Fatalf("%v: %+v, %q", err, s, *heard)
	}
	// In the recorded moment, task 0 was killed and task 1 ran.
	live, err := r.Live(t.Context(), s)
	want := map[int]string{1: "running", 2: "pending", 3: "pending", 4: "pending", 5: "pending"}
	if err != nil || !reflect.DeepEqual(live, want) {
		t.Errorf("%v: %v, want %v", err, live, want)
	}
	if live, err := r.Live(t.Context(), Submission{ID: "popri-test-2", Tasks: []int{0, 1}}); err != nil ||
		len(live) != 0 {
		t.Errorf("tasks that Ray does not know: %v, %v", live, err)
	}

	// Of a submission that fails midway, the tasks before were accepted.
	s.Tasks, s.ID = []int{6, 7, 1, 8}, ""
	for _, task := range s.Tasks {
		testfile.Write(t, filepath.Join(s.File, "000"+string(rune('0'+task))+".json"), `{"entrypoint": "true", "submission_id": "popri-test-1-`+string(rune('0'+task))+
			`"}`)
	}
	err = r.Submit(t.Context(), &s)
	if err == nil || !strings.Contains(err.Error(), "task 1: ") ||
		!strings.HasSuffix(err.Error(), "Please use a different submission_id.") ||
		s.ID != "popri-test-1" || !slices.Equal(s.Tasks, []int{6, 7}) {
		t.Errorf("a name that Ray knows: %v, %+v", err, s)
	}
}

func TestRayAddress(t *testing.T) {
	for _, c := range []struct {
		server, cluster, headers, want string
	}{
		{"", "", "", "http://127.0.0.1:8265"},
		{"", "10.0.0.1:6379", "", "http://127.0.0.1:8265"}, // of Ray's own protocol
		{"", "https://head:1/", "", "https://head:1"},
		{"http://other:2", "https://head:1", "", "http://other:2"},
		{"head:8265", "", "", ""},
		{"", "", "Bearer x", ""},
	} {
		t.Setenv(rayAddress, c.server)
		t.Setenv(rayCluster, c.cluster)
		t.Setenv(rayHeaders, c.headers)
		r, err := newRay()
		if c.want == "" {
			if !fault.IsUser(err) {
				t.Errorf("%+v: %v", c, err)
			}
		} else if err != nil || r.Address != c.want {
			t.Errorf("%+v: %+v, %v", c, r, err)
		}
	}
	t.Setenv(rayAddress, "http://127.0.0.1:1")
	t.Setenv(rayHeaders, "")
	r, err := newRay()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Live(t.Context(), Submission{}); err == nil || !strings.Contains(err.Error(), rayAddress) {
		t.Errorf("nobody there: %v", err)
	}
}
