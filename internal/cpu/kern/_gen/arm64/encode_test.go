package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// known is each instruction as GNU as 2.40 encodes it.
var known = []struct {
	word uint32
	text string
}{
	{0x4ebcbd55, "addp v21.4s, v10.4s, v28.4s"},
	{0x4eb1b955, "addv s21, v10.4s"},
	{0x2edcfd55, "bfmlalb v21.4s, v10.8h, v28.8h"},
	{0x4e7c1d55, "bic v21.16b, v10.16b, v28.16b"},
	{0x4e3cd555, "fadd v21.4s, v10.4s, v28.4s"},
	{0x6e3cd555, "faddp v21.4s, v10.4s, v28.4s"},
	{0x4e3ce555, "fcmeq v21.4s, v10.4s, v28.4s"},
	{0x6ebce555, "fcmgt v21.4s, v10.4s, v28.4s"},
	{0x0e217955, "fcvtl v21.4s, v10.4h"},
	{0x4e217955, "fcvtl2 v21.4s, v10.8h"},
	{0x4e21a955, "fcvtns v21.4s, v10.4s"},
	{0x6e3cfd55, "fdiv v21.4s, v10.4s, v28.4s"},
	{0x4e3cf555, "fmax v21.4s, v10.4s, v28.4s"},
	{0x4e3cc555, "fmaxnm v21.4s, v10.4s, v28.4s"},
	{0x6e30c955, "fmaxnmv s21, v10.4s"},
	{0x4ebcf555, "fmin v21.4s, v10.4s, v28.4s"},
	{0x6e3cdd55, "fmul v21.4s, v10.4s, v28.4s"},
	{0x6ea0f955, "fneg v21.4s, v10.4s"},
	{0x4e218955, "frintn v21.4s, v10.4s"},
	{0x4ebcd555, "fsub v21.4s, v10.4s, v28.4s"},
	{0x4ebc9555, "mla v21.4s, v10.4s, v28.4s"},
	{0x4ebc9d55, "mul v21.4s, v10.4s, v28.4s"},
	{0x4e606955, "sadalp v21.4s, v10.8h"},
	{0x4e602955, "saddlp v21.4s, v10.8h"},
	{0x4e21d955, "scvtf v21.4s, v10.4s"},
	{0x4e9c9555, "sdot v21.4s, v10.16b, v28.16b"},
	{0x2e613955, "shll v21.4s, v10.4h, #16"},
	{0x6e613955, "shll2 v21.4s, v10.8h, #16"},
	{0x0e3c8155, "smlal v21.8h, v10.8b, v28.8b"},
	{0x4e3c8155, "smlal2 v21.8h, v10.16b, v28.16b"},
	{0x0e3cc155, "smull v21.8h, v10.8b, v28.8b"},
	{0x4e3cc155, "smull2 v21.8h, v10.16b, v28.16b"},
	{0x4f10a555, "sxtl2 v21.4s, v10.8h"},
	{0x4f08a555, "sxtl2 v21.8h, v10.16b"},
	{0x0f10a555, "sxtl v21.4s, v10.4h"},
	{0x0f08a555, "sxtl v21.8h, v10.8b"},
	{0x6eb0a955, "umaxv s21, v10.4s"},
	{0x4e9cad55, "usmmla v21.4s, v10.16b, v28.16b"},
	{0x4fbc1155, "fmla v21.4s, v10.4s, v28.s[1]"},
	{0x4f9c1955, "fmla v21.4s, v10.4s, v28.s[2]"},
	{0x4fbc9155, "fmul v21.4s, v10.4s, v28.s[1]"},
	{0x4f9c9955, "fmul v21.4s, v10.4s, v28.s[2]"},
	{0x4fbce155, "sdot v21.4s, v10.16b, v28.4b[1]"},
	{0x4f9ce955, "sdot v21.4s, v10.16b, v28.4b[2]"},
	{0x4f0544b5, "movi v21.4s, #165, lsl #16"},
	{0x4fdef155, "bfmlalt v21.4s, v10.8h, v14.h[1]"},
	{0x4feef955, "bfmlalt v21.4s, v10.8h, v14.h[6]"},
	{0x0fdef155, "bfmlalb v21.4s, v10.8h, v14.h[1]"},
	{0x0feef955, "bfmlalb v21.4s, v10.8h, v14.h[6]"},
}

// TestKnown: every instruction has the bits, and the text, that it has for another assembler.
func TestKnown(t *testing.T) {
	made := map[string]uint32{}
	for name := range instructions {
		word, text := encode(name, 21, 10, 28)
		made[text] = word
	}
	for name := range lanewise {
		for _, lane := range []int{1, 2} {
			word, text := encodeLane(name, 21, 10, 28, lane)
			made[text] = word
		}
	}
	for name := range halfwise {
		for _, lane := range []int{1, 6} {
			word, text := encodeHalf(name, 21, 10, 14, lane)
			made[text] = word
		}
	}
	word, text := moveHigh(21, 0xa5)
	made[text] = word
	for _, row := range known {
		if word, has := made[row.text]; !has || word != row.word {
			t.Errorf("%s is %#08x, expected %#08x", row.text, word, row.word)
		}
		delete(made, row.text)
	}
	for text := range made {
		t.Errorf("%s is not in the table", text)
	}
}

var words = regexp.MustCompile(`WORD \$(0x\w+) // (.*)`)

// TestWords has GNU's assembler, where it is installed (Debian: binutils-aarch64-linux-gnu),
// assemble what is beside each word of the kernels.
func TestWords(t *testing.T) {
	if _, err := exec.LookPath("aarch64-linux-gnu-as"); err != nil {
		t.Skip("no GNU assembler for aarch64")
	}
	var want []uint32
	source := strings.Builder{}
	source.WriteString(".arch armv8.6-a+bf16+i8mm\n")
	seen := map[string]bool{}
	for _, match := range words.FindAllSubmatch(kernels().code.Bytes(), -1) {
		if seen[string(match[0])] {
			continue
		}
		seen[string(match[0])] = true
		word, err := strconv.ParseUint(string(match[1]), 0, 32)
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, uint32(word))
		source.WriteString(string(match[2]) + "\n")
	}
	folder := t.TempDir()
	object, plain := filepath.Join(folder, "words.o"), filepath.Join(folder, "words")
	as := exec.Command("aarch64-linux-gnu-as", "-o", object, "-")
	as.Stdin = strings.NewReader(source.String())
	for _, command := range []*exec.Cmd{as, exec.Command("aarch64-linux-gnu-objcopy", "-O", "binary", "-j", ".text", object, plain)} {
		if out, err := command.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", command, err, out)
		}
	}
	got, err := os.ReadFile(plain)
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 4*len(want) || len(want) < 1000 {
		t.Fatalf("%d words became %d bytes", len(want), len(got))
	}
	lines := strings.Split(source.String(), "\n")[1:]
	for i, word := range want {
		bits := got[4*i:]
		if v := uint32(bits[0]) | uint32(bits[1])<<8 | uint32(bits[2])<<16 | uint32(bits[3])<<24; v != word {
			t.Errorf("%s is written as %#08x, GNU's assembler makes %#08x of it", lines[i], word, v)
		}
	}
}

// TestSame: a run of the generator writes what another wrote.
func TestSame(t *testing.T) {
	if first, second := kernels(), kernels(); !bytes.Equal(first.text(), second.text()) || !slices.Equal(first.stubs.Bytes(), second.stubs.Bytes()) {
		t.Error("two runs write two assemblies")
	}
}
