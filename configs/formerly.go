package configs

import "fmt"

// formerly has the keys of earlier versions, so that their files, variables and --set still mean what they meant, and the
// folders of their runs can be resumed, reported and audited.
var formerly = map[string]struct {
	now   string           // the key that holds its values today; "" if the program decides
	ratio bool             // 0 is no value, because another old key has it then
	is    func(Config) any // what the program does where there is no key; nil accepts any value
	why   string           // of that
}{}

func always(value any) func(Config) any { return func(Config) any { return value } }

// checkGone refuses values of keys that the program no longer has, unless it works by these values.
func (l *loader) checkGone(c Config) {
	for name, v := range l.gone {
		f := formerly[name]
		if is := f.is(c); is != nil && fmt.Sprint(is) != fmt.Sprint(v.value) {
			l.add(v.where, name, "is %s, but the key is gone: it is always %v, because %s", describe(v.value), is, f.why)
		}
	}
}
