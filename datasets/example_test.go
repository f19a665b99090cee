package datasets_test

import (
	"fmt"
	"os"
	"path/filepath"

	"popri/datasets"
)

// Public text, from which prompts are made: Parquet, JSON lines, a JSON list, or plain lines as here.
func ExampleReadPublic() {
	dir, err := os.MkdirTemp("", "public")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "public.txt")
	if err := os.WriteFile(path, []byte("Rain is likely in the north.\nThe last train leaves at ten.\n"),
		0o644); err != nil {
		panic(err)
	}
	texts, err := datasets.ReadPublic(path)
	if err != nil {
		panic(err)
	}
	fmt.Println(len(texts), "texts of", datasets.Words(texts), "words")
	fmt.Println(texts[1].Text)
	// Output:
	// 2 texts of 12 words
	// The last train leaves at ten.
}
