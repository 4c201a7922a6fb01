// Package exec executes decoded kernels: warps of 32 lanes, blocks with their shared memory, grids
// on several processors, global memory with its shadow; and finds what they do wrong. It knows
// nothing of PTX: package ptx makes kernels, whose instructions are closures over a Warp.
package exec

// A Kernel is an entry point, decoded once. Several blocks may execute it at the same time.
type Kernel struct {
	Name       string
	ParamBytes int
	MaxThreads int  // of a block; 0: any number
	Exactly    bool // MaxThreads is what a block has to have
	Code       []Inst
	Regs32     []Lanes32 // what registers of up to 32 bits start as: poison, or a constant
	Regs64     []Lanes64
	Early      []int // registers of up to 32 bits that some path reads before it sets them: they become poison with every block
	EarlyWide  []int // those of 64
	Preds      int
	Shared     int  // bytes of static shared memory
	Local      int  // bytes of local memory per thread
	Grain      int  // fewest bytes that an access to shared memory has: what is checked at once
	Sites      int  // instructions that access global memory
	Serial     bool // blocks can see each other's work: they run one after another
	System     bool // has accesses of system scope: other cards may have to run meanwhile
	Named      bool // warps synchronise in part, by named barriers
	Async      bool // has mbarriers or products by warpgroups
}

// An Inst is one decoded instruction.
type Inst struct {
	Kind    Kind
	Neg     bool // the guard is negated
	Global  bool // touches memory that other cards may touch
	Guard   int  // predicate; -1: none
	Dst     int  // register written, for the pure kinds
	Run     func(w *Warp, m uint32)
	Target  int                          // of a branch
	Targets []int                        // of an indirect one, which Run takes
	Try     func(w *Warp, m uint32) bool // of kind Spin: false = once more, later
	Line    int
	Text    string
}

// A Kind says how an instruction is executed.
type Kind uint8

// Kinds of instructions. Pure ones compute all lanes of one register, whatever the mask, and see to
// nothing else; the executor keeps the lanes outside of the mask.
const (
	Pure32   Kind = iota // a register of up to 32 bits
	Pure64               // one of 64
	PurePred             // a predicate: Run leaves it in Warp.Out
	Effect               // looks at the mask itself
	Branch
	Leave
	Barrier // Run has the warp arrive at one
	Spin    // Try may have to be called again
)

// An Address is [register + Off].
type Address struct {
	Reg  int
	Wide bool // of 64 bits
	Off  uint64
}

// Of returns the address for one lane.
func (a *Address) Of(w *Warp, lane int) uint64 {
	if a.Wide {
		return w.D[a.Reg][lane] + a.Off
	}
	return uint64(w.R[a.Reg][lane] + uint32(a.Off))
}
