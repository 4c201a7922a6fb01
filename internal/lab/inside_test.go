package lab

import (
	"encoding/json"
	"strings"
	"testing"

	"ossian/internal/lab/ledger"
)

func answer(ids ...int) Answer {
	var out Answer
	for _, id := range ids {
		out.Tokens = append(out.Tokens, Token{ID: id})
	}
	return out
}

// What two answers are to each other: by ids, by text, near ties by the server that is surer.
func TestCompareAnswers(t *testing.T) {
	tie, sure := answer(1, 2), answer(1, 3)
	tie.Tokens[1].Top = map[string]float64{"2": -0.70, "3": -0.75}
	sure.Tokens[1].Top = map[string]float64{"2": -3, "3": -0.05}
	close := answer(1, 3)
	close.Tokens[1].Top = map[string]float64{"2": -0.72, "3": -0.70}
	for _, c := range []struct {
		name         string
		ours, theirs Answer
		byText       bool
		want         string
	}{
		{"the same ids", answer(1, 2), answer(1, 2), false, ledger.Identical},
		{"another id", answer(1, 2), answer(1, 3), false, ledger.Different},
		{"one shorter", answer(1, 2), answer(1), false, ledger.Different},
		{"a near tie of both", tie, close, false, ledger.NearTie},
		{"a near tie of one", tie, sure, false, ledger.Different},
		{"the same text", Answer{Text: "a"}, Answer{Text: "a"}, true, ledger.Identical},
		{"another text", Answer{Text: "a"}, Answer{Text: "ab"}, true, ledger.Different},
	} {
		if got, where := compareOne(c.ours, c.theirs, c.byText); got != c.want || (got == ledger.Identical) != (where == "") {
			t.Errorf("%s: %s, %s", c.name, got, where)
		}
	}
	var line ledger.Equality
	if compareAll(&line, []Answer{answer(1), answer(2), answer(3)}, []Answer{answer(1), answer(2), answer(4)}); line.Same != 2 || line.Differ != 1 || line.By != "token ids" || !strings.HasPrefix(line.Text, "prompt 3, token 1") {
		t.Errorf("%+v", line)
	}
}

// winner.yaml is YAML whatever values hold.
func TestScalars(t *testing.T) {
	for value, want := range map[string]string{"8192": "8192", "0.9": "0.9", "true": "true", "fp8": `"fp8"`, "a: b\n": `"a: b\n"`, "0x10": `"0x10"`, "inf": `"inf"`, "": `""`} {
		if got := yamlScalar(value); got != want {
			t.Errorf("%q: %s, want %s", value, got, want)
		}
	}
}

// A changed plan is told by its lines.
func TestDifference(t *testing.T) {
	if got := difference("a\nb\nc\n", "a\nx\nc\nd\n"); got != "- b\n+ x\n+ d\n" {
		t.Errorf("%q", got)
	}
}

// FuzzAnswers: answers that are read back from their file compare without a panic, and are identical to
// themselves.
func FuzzAnswers(f *testing.F) {
	f.Add([]byte(`[{"tokens":[{"id":1,"top":{"1":-0.1}}],"text":"a"}]`), []byte(`[{"text":"a"}]`))
	f.Fuzz(func(t *testing.T, first, second []byte) {
		var ours, theirs []Answer
		if json.Unmarshal(first, &ours) != nil || json.Unmarshal(second, &theirs) != nil {
			return
		}
		var line, same ledger.Equality
		compareAll(&line, ours, theirs)
		if compareAll(&same, ours, ours); len(ours) > 0 && same.Verdict != ledger.Identical {
			t.Errorf("not identical to itself: %+v", same)
		}
	})
}
