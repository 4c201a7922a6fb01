// Package lazyregexp has regular expressions that are compiled when they are first asked for. The
// program has some hundreds of them, and every start would pay for all (11 ms), though few commands
// read what they are for.
package lazyregexp

import (
	"errors"
	"regexp"
	"sync"
)

// A Regexp is a regular expression that is compiled once, when it is first asked for. Several
// goroutines may use it at once.
type Regexp struct {
	source   string
	once     sync.Once
	compiled *regexp.Regexp
}

// made are all expressions, for Check.
var made []*Regexp

// New returns the expression of that source, which must be one, or its first use panics: Check
// holds it. It is for variables of packages only.
func New(source string) *Regexp {
	e := &Regexp{source: source}
	made = append(made, e)
	return e
}

// Check compiles all expressions of the packages that a program has, and says what is wrong with
// those that are none, or that there are no expressions. It is for the tests of these packages.
func Check() (err error) {
	if len(made) == 0 {
		return errors.New("no expressions: is lazyregexp.New called for variables of the package?")
	}
	for _, e := range made {
		_, wrong := regexp.Compile(e.source)
		err = errors.Join(err, wrong)
	}
	return err
}

func (e *Regexp) get() *regexp.Regexp {
	e.once.Do(func() { e.compiled = regexp.MustCompile(e.source) })
	return e.compiled
}

// Match is that of regexp.Regexp.
func (e *Regexp) Match(b []byte) bool { return e.get().Match(b) }

// MatchString is that of regexp.Regexp.
func (e *Regexp) MatchString(s string) bool { return e.get().MatchString(s) }

// FindString is that of regexp.Regexp.
func (e *Regexp) FindString(s string) string { return e.get().FindString(s) }

// FindStringIndex is that of regexp.Regexp.
func (e *Regexp) FindStringIndex(s string) []int { return e.get().FindStringIndex(s) }

// FindStringSubmatch is that of regexp.Regexp.
func (e *Regexp) FindStringSubmatch(s string) []string { return e.get().FindStringSubmatch(s) }

// FindStringSubmatchIndex is that of regexp.Regexp.
func (e *Regexp) FindStringSubmatchIndex(s string) []int { return e.get().FindStringSubmatchIndex(s) }

// FindSubmatch is that of regexp.Regexp.
func (e *Regexp) FindSubmatch(b []byte) [][]byte { return e.get().FindSubmatch(b) }

// FindAllString is that of regexp.Regexp.
func (e *Regexp) FindAllString(s string, n int) []string { return e.get().FindAllString(s, n) }

// FindAllStringIndex is that of regexp.Regexp.
func (e *Regexp) FindAllStringIndex(s string, n int) [][]int { return e.get().FindAllStringIndex(s, n) }

// FindAllStringSubmatch is that of regexp.Regexp.
func (e *Regexp) FindAllStringSubmatch(s string, n int) [][]string {
	return e.get().FindAllStringSubmatch(s, n)
}

// FindAllStringSubmatchIndex is that of regexp.Regexp.
func (e *Regexp) FindAllStringSubmatchIndex(s string, n int) [][]int {
	return e.get().FindAllStringSubmatchIndex(s, n)
}

// ReplaceAllString is that of regexp.Regexp.
func (e *Regexp) ReplaceAllString(s, with string) string { return e.get().ReplaceAllString(s, with) }

// ReplaceAllStringFunc is that of regexp.Regexp.
func (e *Regexp) ReplaceAllStringFunc(s string, with func(string) string) string {
	return e.get().ReplaceAllStringFunc(s, with)
}

// Split is that of regexp.Regexp.
func (e *Regexp) Split(s string, n int) []string { return e.get().Split(s, n) }

// SubexpNames is that of regexp.Regexp.
func (e *Regexp) SubexpNames() []string { return e.get().SubexpNames() }

// SubexpIndex is that of regexp.Regexp.
func (e *Regexp) SubexpIndex(name string) int { return e.get().SubexpIndex(name) }
