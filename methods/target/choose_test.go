package target

import (
	"reflect"
	"testing"

	"popri/datasets"
)

func TestLevels(t *testing.T) {
	levels := Levels([]datasets.Text{{Source: "a/b/c.go"}, {Source: "top.txt"}, {}, {Source: "/rooted"}})
	if len(levels) != 2 || !reflect.DeepEqual(levels[0].Groups, []string{"a/b/c.go", "top.txt", "", "/rooted"}) ||
		!reflect.DeepEqual(levels[1].Groups, []string{"a/b", "", "", ""}) {
		t.Errorf("%+v", levels)
	}
}
