package trackers

import (
	"encoding/binary"
	"encoding/hex"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"popri/internal/rundir"
	"popri/testkit/testfile"
)

func fieldsOf(text string) []string { return strings.Fields(text) }

func containsWord(text string) bool { return strings.Contains(text, "word") }

// The first record of TensorFlow's own event files begins with these bytes: the length 24 and its masked checksum.
func TestFirstRecord(t *testing.T) {
	var version message
	version.double(eventTime, 1.5)
	version.text(eventVersion, "brain.Event:2")
	got := appendRecord(nil, version)
	want := "1800000000000000a37f4b22" + // length
		"09000000000000f83f" + "1a0d" + hex.EncodeToString([]byte("brain.Event:2")) + "2a28646c" // as tensorboard 2 computes it
	if hex.EncodeToString(got) != want {
		t.Errorf("%x, want %s", got, want)
	}
}

func TestScalarEvent(t *testing.T) {
	got := pointRecords([]Point{{"loss", 300, time.UnixMilli(1500), 0.5}})
	want := "09000000000000f83f" + "10ac02" + "2a0d" + "0a0b" + "0a04" + hex.EncodeToString([]byte("loss")) +
		"150000003f"
	if body := hex.EncodeToString(got[12 : len(got)-4]); body != want {
		t.Errorf("%s, want %s", body, want)
	}
}

// field is a field of a message.
type field struct {
	number int
	value  uint64
	inner  []byte
}

func parse(t *testing.T, b []byte) (list []field) {
	t.Helper()
	for number, v := range messageFields(b) {
		list = append(list, field{number, v.number, v.bytes})
	}
	return list
}

// readEventFile returns the points of the one event file in a run's folder, the texts by tag, and the session starts.
func readEventFile(t *testing.T, dir string) (points []Point, texts map[string]string, starts int) {
	t.Helper()
	files, err := os.ReadDir(filepath.Join(dir, rundir.TensorBoard))
	if err != nil || len(files) != 1 {
		t.Fatalf("%v, %v: want one file", files, err)
	}
	b := testfile.Read(t, filepath.Join(dir, rundir.TensorBoard, files[0].Name()))
	texts = map[string]string{}
	for len(b) > 0 {
		n := binary.LittleEndian.Uint64(b)
		data := b[12 : 12+n]
		if maskedCRC(b[:8]) != binary.LittleEndian.Uint32(b[8:]) ||
			maskedCRC(data) != binary.LittleEndian.Uint32(b[12+n:]) {
			t.Fatal("a checksum is wrong")
		}
		b = b[16+n:]
		var p Point
		for _, f := range parse(t, data) {
			switch f.number {
			case eventTime:
				p.Time = time.UnixMicro(int64(math.Round(math.Float64frombits(f.value) * 1e6)))
			case eventStep:
				p.Step = int64(f.value)
			case eventSession:
				starts++
			case eventSummary:
				for _, v := range parse(t, f.inner) {
					p.Key = ""
					for _, x := range parse(t, v.inner) {
						switch x.number {
						case valueTag:
							p.Key = string(x.inner)
						case valueSimple:
							p.Value = float64(math.Float32frombits(uint32(x.value)))
							points = append(points, p)
						case valueTensor:
							for _, y := range parse(t, x.inner) {
								if y.number == tensorStrings {
									texts[p.Key] = string(y.inner)
								}
							}
						}
					}
				}
			}
		}
	}
	return points, texts, starts
}

func TestTensorBoard(t *testing.T) {
	testTracker(t, "tensorboard", os.Getenv, func(t *testing.T, dir string) []Point {
		points, _, _ := readEventFile(t, dir)
		return points
	})
}

func TestTensorBoardTexts(t *testing.T) {
	dir := t.TempDir()
	run := Run{Dir: dir, YAML: []byte("seed: 1\n"), Tags: []Pair{{"epsilon", "1"}, {"device", "a|b"}}}
	for range 3 { // also within one second
		tracker, err := openTensorBoard(run)
		if err != nil {
			t.Fatal(err)
		}
		if err := tracker.Close(End{Finished, "protects all"}); err != nil {
			t.Fatal(err)
		}
	}
	_, texts, starts := readEventFile(t, dir)
	if texts["config"] != "```yaml\nseed: 1\n```" ||
		texts["run"] != "| | |\n|---|---|\n| epsilon | 1 |\n| device | a\\|b |\n" ||
		texts["guarantee"] != "protects all" || starts != 1 {
		t.Errorf("%q, %d session starts", texts, starts)
	}
}

// What a kill leaves: half a new file, or the old one next to the new one, whose last record is torn.
func TestTensorBoardAfterKill(t *testing.T) {
	dir := t.TempDir()
	folder := testfile.Folder(t, filepath.Join(dir, rundir.TensorBoard))
	future := "events.out.tfevents.9000000000.popri"
	for _, name := range []string{temporaryEvents, "events.out.tfevents.1700000000.popri", future} {
		testfile.Write(t, filepath.Join(folder, name), []byte{1, 2, 3})
	}
	tracker, err := openTensorBoard(Run{Dir: dir, History: somePoints(1, 2)})
	if err != nil {
		t.Fatal(err)
	}
	if err := tracker.Close(End{}); err != nil {
		t.Fatal(err)
	}
	files, err := os.ReadDir(folder)
	if err != nil || len(files) != 1 || files[0].Name() <= future {
		t.Errorf("%v, %v: want a file whose name sorts behind %s", files, err, future)
	}
	points, _, _ := readEventFile(t, dir)
	if shown(points) != shown(somePoints(1, 2)) {
		t.Errorf("%s", shown(points))
	}
}
