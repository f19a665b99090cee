package modelcache

import (
	"popri/configs"
	"popri/internal/fault"
	"popri/internal/hub"
	"popri/model/shipped"
)

// Dir resolves a model's path: "embedded" is the model of the given name that comes with the program, the name of a
// model that the set-up fetches is its folder in the cache, and the name of a model on the hub is its folder in the
// hub's cache.
func Dir(path, name string) (string, error) {
	switch path {
	case "embedded":
		return shipped.Dir(name)
	case configs.Trained:
		return "", fault.Userf("the %s is %q and was not trained yet: popri demo, run and ablate train it and put its "+
			"folder in place of the word", name, path)
	}
	dir, err := Folder(path, hub.Decoder)
	return dir, fault.User(err)
}

// Folder is a folder that is given by its path, or by the name under which a command has fetched it.
func Folder(path string, role hub.Role) (string, error) {
	if s, ok := Find(path); ok {
		return s.Installed()
	}
	return hub.Resolve(path, role)
}
