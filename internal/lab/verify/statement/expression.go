package statement

import (
	"regexp"
	"sync"
)

// An expression is a regular expression that is compiled when it is first asked for. There are two
// hundred of them, and every start of the program would pay for all (5 ms), though few starts read
// a document.
type expression struct {
	source   string
	compiled func() *regexp.Regexp
}

// expressions are all that were made, for the test that each of them compiles.
var expressions []*expression

// expr returns the expression of that source, which must be one: TestExpressions holds it.
func expr(source string) *expression {
	made := &expression{source, sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(source) })}
	expressions = append(expressions, made)
	return made
}

// The methods are those of regexp.Regexp.

func (e *expression) MatchString(s string) bool            { return e.compiled().MatchString(s) }
func (e *expression) FindString(s string) string           { return e.compiled().FindString(s) }
func (e *expression) FindStringIndex(s string) []int       { return e.compiled().FindStringIndex(s) }
func (e *expression) FindStringSubmatch(s string) []string { return e.compiled().FindStringSubmatch(s) }

func (e *expression) FindStringSubmatchIndex(s string) []int {
	return e.compiled().FindStringSubmatchIndex(s)
}

func (e *expression) FindAllString(s string, most int) []string {
	return e.compiled().FindAllString(s, most)
}

func (e *expression) FindAllStringIndex(s string, most int) [][]int {
	return e.compiled().FindAllStringIndex(s, most)
}

func (e *expression) FindAllStringSubmatch(s string, most int) [][]string {
	return e.compiled().FindAllStringSubmatch(s, most)
}

func (e *expression) FindAllStringSubmatchIndex(s string, most int) [][]int {
	return e.compiled().FindAllStringSubmatchIndex(s, most)
}

func (e *expression) ReplaceAllString(s, with string) string {
	return e.compiled().ReplaceAllString(s, with)
}

func (e *expression) Split(s string, most int) []string { return e.compiled().Split(s, most) }
