package document

import (
	"slices"
	"testing"

	"ossian/internal/lazyregexp"
)

// Numbers are brought into one form where the text shows which form they have, and left alone
// where it does not.
func TestOneForm(t *testing.T) {
	for _, c := range []struct{ given, want []string }{
		{[]string{"von 1.000,5 Token/s auf 1.200 Token/s, also 20,0 %"}, []string{"von 1000.5 Token/s auf 1200 Token/s, also 20.0 %"}},
		{[]string{"12,345 % und 3,5 %"}, []string{"12.345 % und 3.5 %"}},
		{[]string{"GPUs 0,1 und 3,5 % mehr, vLLM 0.10.1, A,B"}, []string{"GPUs 0.1 und 3.5 % mehr, vLLM 0.10.1, A,B"}},
		{[]string{"1,200.5 tok/s and 12,000 tok/s"}, []string{"1,200.5 tok/s and 12,000 tok/s"}},
		{[]string{"3,5 % here and 3.5 % there"}, []string{"3,5 % here and 3.5 % there"}}, // two authors
		{[]string{"10'000 and 12\u00a0000 and 1\u202f000\u202f000"}, []string{"10,000 and 12,000 and 1,000,000"}},
		{[]string{"from 10 000 tok/s to 12 000 tok/s"}, []string{"from 10,000 tok/s to 12,000 tok/s"}},
		{[]string{"sizes 8 256 and 16"}, []string{"sizes 8 256 and 16"}},
		{[]string{"提升 25％，共 10 tok/s"}, []string{"提升 25%, 共 10 tok/s"}},
	} {
		got := slices.Clone(c.given)
		if oneForm(got); !slices.Equal(got, c.want) {
			t.Errorf("%q is %q, want %q", c.given, got, c.want)
		}
	}
}

// Tables of LaTeX and of consoles are read as others are.
func TestDrawnTables(t *testing.T) {
	for _, text := range []string{
		"\\begin{tabular}{lrr}\nModel & before & gain \\\\ \\hline\n8B & 100.0 & 1.50$\\times$ \\\\\n\\end{tabular}\n",
		"┏━━━━┳━━━━┳━━━━┓\n┃ Model ┃ before ┃ gain ┃\n┡━━━━╇━━━━╇━━━━┩\n│ 8B │ 100.0 │ 1.50x │\n└────┴────┴────┘\n",
	} {
		doc, err := Read("t", []byte(text))
		if err != nil || len(doc.Tables) != 1 || len(doc.Tables[0].Rows) != 1 {
			t.Fatalf("%q: %v, %+v", text, err, doc)
		}
		table := doc.Tables[0]
		if row := table.Rows[0]; !slices.Equal(table.Header, []string{"Model", "before", "gain"}) || row.Name != "8B" || len(row.Cells[1].Figures) != 1 || len(row.Cells[2].Changes) != 1 {
			t.Errorf("%q: %+v", text, table)
		}
	}
}

// TestExpressions: an expression that is none would end the program at its first use.
func TestExpressions(t *testing.T) {
	if err := lazyregexp.Check(); err != nil {
		t.Error(err)
	}
}
