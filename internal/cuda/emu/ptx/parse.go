// Package ptx reads PTX and makes kernels of it that package exec executes: each instruction becomes
// one closure over the registers of a warp.
//
// Anything unknown (opcode, modifier, directive, operand of another size) ends the reading with its
// line, since a guess would make wrong results look right. So does a register that is read and that
// no path has set.
package ptx

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"ossian/internal/cuda/emu/arith"
	"ossian/internal/cuda/emu/exec"
	"ossian/internal/cuda/emu/flow"
)

var le = binary.LittleEndian

// A Module is a PTX file.
type Module struct {
	Arch      int  // of .target: 80
	Exact     bool // "sm_90a": that architecture alone
	Kernels   map[string]*exec.Kernel
	Variables []Variable
	places    []place

	dynamicAlign int // of dynamic shared memory
}

// A Variable is memory that a module brings along.
type Variable struct {
	Bytes    uint64
	Init     []byte // what it starts as
	Constant bool
}

// A place is a register of a kernel that holds the address of a variable.
type place struct {
	kernel        *exec.Kernel
	reg, variable int
}

// At returns the kernels of a module whose variables are at these addresses. A module may be used in
// several places at a time.
func (m *Module) At(addresses []uint64) map[string]*exec.Kernel {
	if len(m.places) == 0 {
		return m.Kernels
	}
	placed := map[string]*exec.Kernel{}
	for name, k := range m.Kernels {
		copied := *k
		copied.Regs64 = slices.Clone(k.Regs64)
		for _, p := range m.places {
			if p.kernel == k {
				copied.Regs64[p.reg] = fill64(addresses[p.variable])
			}
		}
		placed[name] = &copied
	}
	return placed
}

// A reg is a register; bits is 1 for predicates.
type reg struct {
	bits int
	n    int
}

// A param is one parameter: its place among all.
type param struct{ at, size int }

// A constant is a value that became a register.
type constant struct {
	bits    int
	value   uint64
	dynamic bool // where dynamic shared memory begins
}

// A scope is a pair of braces with the names declared in it.
type scope struct {
	regs   map[string]reg
	labels map[string]int
}

// A parser holds what is known at the place it has reached.
type parser struct {
	mod     *Module
	text    string // without comments
	pos     int
	line    int
	symbols map[string]symbol // of the module, then of the kernel
	outer   map[string]symbol // of the module

	k      *exec.Kernel
	params map[string]param
	uses   []flow.Use        // of the instructions of k
	steps  map[int]flow.Step // what instructions mean to products by warpgroups, by their index
	scopes []*scope
	tables map[string][]string // .branchtargets
	fixes  []fix
	consts map[constant]int // made registers

	in   *exec.Inst // being decoded
	use  flow.Use   // of it
	op   string     // its first word, the others are
	mods []string
	args []string
}

// A symbol is a name that stands for an address.
type symbol struct {
	space   string // "shared", "global", "const", "local"
	at      uint64
	dynamic bool // shared memory whose size the launch says: begins behind all else
	index   int  // into Module.Variables
	bytes   int  // of shared memory of the module, which kernels that use it give a place
	align   int
}

// A fix is a branch whose label may come later.
type fix struct {
	at     int
	line   int
	label  string
	scopes []*scope
	set    func(pc int) // nil: the target
}

// An Error names the line.
type Error struct {
	Line int
	Text string
}

// Error begins with the number of the line.
func (e Error) Error() string { return fmt.Sprintf("line %d: %s", e.Line, e.Text) }

func (p *parser) fail(format string, a ...any) {
	panic(Error{p.line, fmt.Sprintf(format, a...)})
}

// Parse reads a PTX file; errors are of type Error.
func Parse(src string) (m *Module, err error) {
	p := &parser{mod: &Module{Kernels: map[string]*exec.Kernel{}}, text: uncomment(src), line: 1, outer: map[string]symbol{}}
	defer func() {
		if r := recover(); r != nil {
			fault, ok := r.(Error)
			if !ok {
				panic(r)
			}
			m, err = nil, fault
		}
	}()
	for p.skip(); p.pos < len(p.text); p.skip() {
		p.directive()
	}
	if p.mod.Arch == 0 {
		p.fail("no .target")
	}
	return p.mod, nil
}

// uncomment replaces comments by spaces; lines stay where they are.
func uncomment(src string) string {
	b := []byte(src)
	blank := func(from, to int) {
		for i := from; i < to; i++ {
			if b[i] != '\n' {
				b[i] = ' '
			}
		}
	}
	for i := 0; i+1 < len(b); i++ {
		if b[i] != '/' {
			continue
		}
		var end string
		switch b[i+1] {
		case '/':
			end = "\n"
		case '*':
			end = "*/"
		default:
			continue
		}
		to := len(b)
		if n := strings.Index(src[i+2:], end); n >= 0 {
			to = i + 2 + n + len(end)
		}
		blank(i, to)
		i = to - 1
	}
	return strings.TrimRight(string(b), "\x00")
}

// skip goes to the next byte that is not a space.
func (p *parser) skip() {
	for p.pos < len(p.text) && strings.IndexByte(" \t\r\n;", p.text[p.pos]) >= 0 {
		if p.text[p.pos] == '\n' {
			p.line++
		}
		p.pos++
	}
}

// until takes the text up to one of the bytes in ends, which stays.
func (p *parser) until(ends string) string {
	n := strings.IndexAny(p.text[p.pos:], ends)
	if n < 0 {
		p.fail("the file ends before %q", ends)
	}
	text := p.text[p.pos : p.pos+n]
	p.pos += n
	p.line += strings.Count(text, "\n")
	return text
}

// directive reads one statement outside of kernels.
func (p *parser) directive() {
	rest := p.text[p.pos:]
	word := rest
	if n := strings.IndexAny(rest, " \t\r\n({;"); n >= 0 {
		word = rest[:n]
	}
	switch word {
	case ".version", ".address_size", ".file":
		n := strings.IndexByte(rest, '\n')
		if n < 0 {
			n = len(rest)
		}
		p.pos += n
		return
	case ".target":
		p.pos += len(word)
		p.target(strings.TrimSpace(p.until("\n")))
		return
	}
	line := p.line
	head := p.until("({;=")
	words := strings.Fields(head)
	if i := indexOf(words, ".entry"); i >= 0 && i+1 < len(words) {
		p.entry(words[i+1])
		return
	}
	p.line = line
	if len(words) == 0 || indexOf(words, ".func") >= 0 || !(indexOf(words, ".global") >= 0 || indexOf(words, ".const") >= 0 || indexOf(words, ".shared") >= 0) {
		p.fail("directive %q is not known", strings.Join(words, " "))
	}
	init := ""
	if p.pos < len(p.text) && p.text[p.pos] == '=' {
		init = p.until(";")
	}
	p.variable(words, strings.TrimSpace(init), p.outer)
}

func indexOf(words []string, word string) int {
	for i, w := range words {
		if w == word {
			return i
		}
	}
	return -1
}

// target reads "sm_80" or "sm_90a".
func (p *parser) target(s string) {
	s, _, _ = strings.Cut(s, ",")
	s, ok := strings.CutPrefix(s, "sm_")
	s, p.mod.Exact = strings.CutSuffix(s, "a")
	n, err := strconv.Atoi(s)
	if !ok || err != nil || n < 50 {
		p.fail("target %q is not known", s)
	}
	p.mod.Arch = n
}

// entry reads a kernel behind its name, which ends before its parameters.
func (p *parser) entry(name string) {
	p.k = &exec.Kernel{Name: name, Grain: 16}
	p.scopes, p.fixes, p.uses, p.consts, p.params = nil, nil, nil, map[constant]int{}, map[string]param{}
	p.symbols, p.tables, p.steps = map[string]symbol{}, map[string][]string{}, map[int]flow.Step{}
	for name, s := range p.outer {
		p.symbols[name] = s
	}
	if p.text[p.pos] == '(' {
		p.pos++
		for _, declared := range strings.Split(p.until(")"), ",") {
			p.parameter(strings.Fields(declared))
		}
		p.pos++
	}
	p.limits(strings.Fields(strings.NewReplacer(",", " ").Replace(p.until("{"))))
	p.mod.Kernels[name] = p.k
	p.body()
	p.link()
	p.placeDynamic()
	p.followRegisters()
}

// followRegisters ends the reading of a kernel that uses registers wrongly on one of its paths.
func (p *parser) followRegisters() {
	registers := 3 * max(p.k.Preds, len(p.k.Regs64), len(p.k.Regs32))
	if at := flow.Unset(p.k, p.uses, registers); at >= 0 {
		p.line = p.k.Code[at].Line
		p.fail("a register is read that nothing has set before: %s", p.k.Code[at].Text)
	}
	if at, fault := flow.Products(p.k, p.uses, p.steps); fault != "" {
		p.line = p.k.Code[at].Line
		p.fail("%s: %s", fault, p.k.Code[at].Text)
	}
	early := flow.Early(p.k, p.uses, registers)
	for n := range p.k.Regs32 {
		if early[p.flowing(reg{32, n})] {
			p.k.Early = append(p.k.Early, n)
		}
	}
	for n := range p.k.Regs64 {
		if early[p.flowing(reg{64, n})] {
			p.k.EarlyWide = append(p.k.EarlyWide, n)
		}
	}
}

// limits reads what stands between the parameters and the body.
func (p *parser) limits(words []string) {
	for i := 0; i < len(words); i++ {
		switch words[i] {
		case ".maxntid", ".reqntid":
			p.k.Exactly = words[i] == ".reqntid"
			p.k.MaxThreads = 1
			for i+1 < len(words) && words[i+1][0] != '.' {
				i++
				p.k.MaxThreads *= p.count(words[i])
			}
		case ".minnctapersm", ".maxnreg":
			i++
		default:
			p.fail("directive %q is not known", words[i])
		}
	}
}

// count reads a number of things.
func (p *parser) count(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 || n > 1<<30 {
		p.fail("%q is not a number of things", s)
	}
	return n
}

// declared reads ".align 8 .b8 name[24]": bytes of all, alignment.
func (p *parser) declared(words []string) (name string, bytes, align int) {
	width := 0
	for i, word := range words {
		switch {
		case word == ".align" && i+1 < len(words) && indexOf(words, ".ptr") < 0: // behind .ptr it is that of the memory
			align = p.count(words[i+1])
		case word[0] == '.' && arith.TypeBits(word[1:]) >= 8:
			width = arith.TypeBits(word[1:]) / 8
		}
	}
	if width == 0 || len(words) == 0 {
		p.fail("declaration %q has no type", strings.Join(words, " "))
	}
	name = words[len(words)-1]
	bytes = width
	if base, size, array := strings.Cut(name, "["); array {
		name = base
		if size = strings.TrimSuffix(size, "]"); size == "" {
			size = "0"
		}
		bytes = width * p.count(size)
	}
	align = max(align, width)
	if align > 1<<16 || align&(align-1) != 0 {
		p.fail("alignment %d is not a power of two", align)
	}
	return name, bytes, align
}

func (p *parser) parameter(words []string) {
	if len(words) == 0 {
		return
	}
	name, bytes, align := p.declared(words)
	at := roundUp(p.k.ParamBytes, align)
	p.params[name] = param{at, bytes}
	p.k.ParamBytes = at + bytes
	if p.k.ParamBytes > 4096 {
		p.fail("%d bytes of parameters: 4096 are possible", p.k.ParamBytes)
	}
}

func roundUp(n, align int) int { return (n + align - 1) / align * align }

// variable declares memory of a module or kernel.
func (p *parser) variable(words []string, init string, into map[string]symbol) {
	name, bytes, align := p.declared(words)
	if _, twice := into[name]; twice {
		p.fail("%s is declared twice", name)
	}
	switch {
	case indexOf(words, ".shared") >= 0 && indexOf(words, ".extern") >= 0:
		into[name] = symbol{space: "shared", dynamic: true}
		p.mod.dynamicAlign = max(p.mod.dynamicAlign, align)
	case indexOf(words, ".shared") >= 0 && len(p.scopes) == 0:
		into[name] = symbol{space: "shared", bytes: bytes, align: align}
	case indexOf(words, ".shared") >= 0:
		at := roundUp(p.k.Shared, align)
		into[name] = symbol{space: "shared", at: uint64(at)}
		p.k.Shared = at + bytes
	case indexOf(words, ".local") >= 0:
		at := roundUp(p.k.Local, align)
		into[name] = symbol{space: "local", at: uint64(at)}
		p.k.Local = at + bytes
	default:
		space := "global"
		if indexOf(words, ".const") >= 0 {
			space = "const"
		}
		into[name] = symbol{space: space, index: len(p.mod.Variables)}
		p.mod.Variables = append(p.mod.Variables, Variable{uint64(bytes), p.initial(words, init, bytes), space == "const"})
	}
}

// initial reads "= {1, 2}" or "= 5".
func (p *parser) initial(words []string, s string, bytes int) []byte {
	data := make([]byte, bytes)
	if s = strings.TrimSpace(strings.TrimPrefix(s, "=")); s == "" {
		return data
	}
	width := 0
	for _, word := range words {
		if bits := arith.TypeBits(strings.TrimPrefix(word, ".")); word[0] == '.' && bits >= 8 {
			width = bits / 8
		}
	}
	for i, item := range strings.Split(strings.Trim(s, "{} \t\r\n"), ",") {
		if (i+1)*width > bytes {
			p.fail("more values than the variable has room for")
		}
		v := p.number(strings.TrimSpace(item), width*8)
		for k := range width {
			data[i*width+k] = byte(v >> (8 * k))
		}
	}
	return data
}

// body reads statements up to the closing brace of the kernel.
func (p *parser) body() {
	for {
		p.skip()
		if p.pos >= len(p.text) {
			p.fail("the file ends inside of kernel %s", p.k.Name)
		}
		switch p.text[p.pos] {
		case '{':
			p.scopes = append(p.scopes[:len(p.scopes):len(p.scopes)], &scope{map[string]reg{}, map[string]int{}})
			p.pos++
			continue
		case '}':
			p.scopes = p.scopes[:len(p.scopes)-1]
			p.pos++
			if len(p.scopes) == 0 {
				return
			}
			continue
		}
		p.statement()
	}
}

// statement reads a label, a declaration or an instruction.
func (p *parser) statement() {
	rest := p.text[p.pos:]
	if n := strings.IndexAny(rest, ":; \t\r\n"); n > 0 && rest[n] == ':' && !strings.HasPrefix(rest[n:], "::") {
		label := rest[:n]
		p.pos += n + 1
		p.skip()
		if strings.HasPrefix(p.text[p.pos:], ".branchtargets") {
			p.pos += len(".branchtargets")
			p.tables[label] = operands(p.until(";"))
			return
		}
		labels := p.scopes[len(p.scopes)-1].labels
		if _, twice := labels[label]; twice {
			p.fail("label %s is there twice", label)
		}
		labels[label] = len(p.k.Code)
		return
	}
	if strings.HasPrefix(rest, ".loc ") {
		p.until("\n")
		return
	}
	line := p.line
	text := strings.Join(strings.Fields(p.until(";")), " ")
	end := p.line
	p.line = line
	words := strings.Fields(strings.Replace(text, ".reg.", ".reg .", 1))
	if len(words) == 0 { // spaces of kinds that PTX does not know
		p.fail("%q is no statement", text)
	}
	switch words[0] {
	case ".reg":
		p.registers(words[1:])
	case ".shared", ".local":
		p.variable(words, "", p.symbols)
	case ".pragma":
	default:
		if words[0][0] == '.' {
			p.fail("directive %q is not known", words[0])
		}
		p.instruction(text)
	}
	p.line = end
}

// registers declares ".b32 %r<13>" or ".pred p, q".
func (p *parser) registers(words []string) {
	if len(words) < 2 {
		p.fail("declaration of registers without names")
	}
	bits := 1
	if words[0][0] != '.' {
		p.fail("%q is no type", words[0])
	}
	if words[0] != ".pred" {
		if bits = arith.TypeBits(strings.TrimPrefix(words[0], ".")); bits < 16 || bits > 64 {
			p.fail("registers of type %s are not known", words[0])
		}
	}
	names := p.scopes[len(p.scopes)-1].regs
	for _, name := range strings.Split(strings.Join(words[1:], ""), ",") {
		base, many, ok := strings.Cut(name, "<")
		if !ok {
			names[name] = p.fresh(bits)
			continue
		}
		for i := range min(p.count(strings.TrimSuffix(many, ">")), 1<<16) {
			names[base+strconv.Itoa(i)] = p.fresh(bits)
		}
	}
}

// link gives branches their targets.
func (p *parser) link() {
	for _, f := range p.fixes {
		p.line = f.line
		pc, found := 0, false
		for i := len(f.scopes) - 1; i >= 0 && !found; i-- {
			pc, found = f.scopes[i].labels[f.label]
		}
		if !found {
			p.fail("label %q is not there", f.label)
		}
		if pc >= len(p.k.Code) {
			p.fail("label %q has no instruction behind it", f.label)
		}
		if f.set != nil {
			f.set(pc)
		} else {
			p.k.Code[f.at].Target = pc
		}
	}
	if n := len(p.k.Code); n == 0 || p.k.Code[n-1].Guard >= 0 || (p.k.Code[n-1].Kind != exec.Leave && p.k.Code[n-1].Kind != exec.Branch) {
		p.fail("kernel %s does not end with ret", p.k.Name)
	}
}

// placeDynamic puts dynamic shared memory behind the static one, whose size is known only now.
func (p *parser) placeDynamic() {
	p.k.Shared = roundUp(p.k.Shared, 16)
	start := roundUp(p.k.Shared, max(p.mod.dynamicAlign, 128))
	for key, n := range p.consts {
		if !key.dynamic {
			continue
		}
		p.k.Shared = start
		if key.bits == 64 {
			p.k.Regs64[n] = fill64(uint64(start))
		} else {
			p.k.Regs32[n] = fill32(uint32(start))
		}
	}
	if p.k.Shared > 48<<10 {
		p.fail("kernel %s has %d bytes of static shared memory: 49152 are possible", p.k.Name, p.k.Shared)
	}
}
