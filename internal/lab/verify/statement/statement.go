// Package statement checks what documents say in sentences, lists and tables against the
// figures that the same sentence, list or table gives: gains and their operands, rates and
// their counts, statistics and their order, parts and their whole, and one stream's speed
// against what its card can read. Its users see what contradicts what, and need not know how
// people write units, comparisons and numbers.
//
// A figure is an interval, as in package document, and prose is read with more room than a
// table: what calls itself about so much, up to so much or nearly so much is taken at its
// word. Where a sentence leaves open which figures belong together nothing is said.
package statement

import "ossian/internal/lab/verify/document"

// A Rule says of which rule of lab.md 7 a contradiction is.
type Rule string

// The rules whose statements are checked here.
const (
	Arithmetic Rule = "V-ARITH"
	Percentage Rule = "V-PCT"
	Little     Rule = "V-LITTLE"
	Roof       Rule = "V-ROOF"
	Claim      Rule = "V-CLAIM"
)

// A Degree says how sure a contradiction is.
type Degree int

// The degrees, the surest first.
const (
	Certain  Degree = iota // the printed figures, or what is possible, exclude it
	Doubtful               // it needs what the document does not show
	Notable                // true as printed, and easily misread
)

// A Contradiction is a statement that does not agree with what stands beside it.
type Contradiction struct {
	Rule    Rule
	Degree  Degree
	Line    int
	Place   string
	Printed string
	Follows string
	Why     string
}

// A checker collects what is found in one document.
type checker struct {
	doc   *document.Document
	found []Contradiction

	// What is asked of a whole document more than once is found once.
	all    string
	models []document.ModelName
}

// Check reads the sentences, lists and tables of a document.
func Check(doc *document.Document) []Contradiction {
	c := &checker{doc: doc}
	c.all, c.models = documentText(doc)
	paragraphs := paragraphsOf(doc)
	for i := range paragraphs {
		c.checkParagraph(&paragraphs[i])
	}
	c.checkLists(paragraphs)
	for i := range doc.Tables {
		c.checkStates(&doc.Tables[i])
		c.checkTableFacts(&doc.Tables[i])
	}
	c.checkKeyed()
	c.checkStreams(paragraphs)
	return c.found
}

// checkParagraph applies the rules on sentences, and those on all of a short paragraph.
func (c *checker) checkParagraph(paragraph *paragraph) {
	for i := range paragraph.sentences {
		sentence := &paragraph.sentences[i]
		c.checkChanges(sentence)
		c.checkEquivalents(sentence)
		c.checkBounds(sentence)
		c.checkClock(sentence)
		c.checkRuns(sentence)
		c.checkEquations(sentence)
		c.checkAdditions(sentence)
		c.checkCounted(sentence)
		c.checkSlashed(sentence)
	}
	for _, sentence := range joinedBySemicolon(paragraph.sentences) {
		c.checkSum(&sentence)
		c.checkSentenceFacts(&sentence)
	}
	c.checkSumOfSentences(paragraph)
	c.checkParts(paragraph)
	c.checkTogether(paragraph)
}

// find adds a contradiction of a sentence.
func (c *checker) find(rule Rule, degree Degree, sentence *sentence, follows, why string) {
	c.add(Contradiction{rule, degree, sentence.line, "sentence", sentence.text, follows, why})
}

// maxFound bounds what is found in one document: the rest of a document that is wrong
// throughout tells nothing new.
const maxFound = 1_000

func (c *checker) add(found Contradiction) {
	if len(c.found) < maxFound {
		c.found = append(c.found, found)
	}
}
