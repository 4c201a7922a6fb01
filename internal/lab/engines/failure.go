package engines

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"ossian/internal/lazyregexp"
)

// Reasons why a server does not come up, or goes away.
const (
	OutOfMemory = "out of memory"
	Refused     = "flag refused"
	Unsupported = "not supported"
	PortTaken   = "port taken"
	NoModel     = "model not found"
	NoProgram   = "no such program"
	NeverReady  = "never ready"
	Crashed     = "start" // anything else
)

// killed are the exit statuses of a program that the kernel ended for its memory: by its own report,
// and by that of a shell or a container runtime.
var killed = []int{-9, 137}

// signs are words of engines' logs and what they mean; the first that is found counts, so that the
// narrow ones stand before the wide.
var signs = []struct {
	reason string
	text   *lazyregexp.Regexp
}{
	// torch, CUDA, HIP, vLLM's and TensorRT's own checks, llama.cpp, Ollama, Ossian's memory plan
	{OutOfMemory, lazyregexp.New(`(?i)out of memory|OutOfMemoryError|no available memory for the cache blocks|` +
		`larger than the (available|maximum number of tokens).*KV cache|is larger than the available KV cache memory|free memory on device .* is less than desired|` +
		`not enough (GPU )?memory|(failed|unable) to allocate|cudaMalloc failed|hipErrorOutOfMemory|` +
		`requires more system memory|does not fit into memory|MemoryError|cannot allocate memory`)},
	{PortTaken, lazyregexp.New(`(?i)address already in use|something else answers at|only one usage of each socket`)},
	{Refused, lazyregexp.New(`(?i)unrecognized arguments?|unknown (flag|option|argument)|invalid (choice|argument|value)|` +
		`no such option|error: argument|expected one argument|unexpected keyword argument|not a valid`)},
	{NoModel, lazyregexp.New(`(?i)model .*(not found|does not exist)|no such file or directory|repository not found|` +
		`is not a local folder|failed to load model|not a valid model identifier|404 client error`)},
	{Unsupported, lazyregexp.New(`(?i)NotImplementedError|(is|are) (not supported|unsupported)|unsupported|not supported|no kernel image|requires compute capability`)},
}

// Diagnose says why a server ended, from its exit status and the last lines of its log, and which line
// says so: the reason, and that line, or none.
func Diagnose(exit *int, tail []string) (reason, line string) {
	for _, sign := range signs {
		// The last line that says it is the nearest to the end.
		for _, text := range slices.Backward(tail) {
			if sign.text.MatchString(text) {
				return sign.reason, strings.TrimSpace(text)
			}
		}
	}
	if exit != nil && slices.Contains(killed, *exit) {
		return OutOfMemory, "killed by the system (status " + strconv.Itoa(*exit) + "), as it does when memory runs out"
	}
	last := ""
	for _, text := range slices.Backward(tail) {
		if last = strings.TrimSpace(text); last != "" {
			break
		}
	}
	if words := endOf(exit); words != "" {
		// What it printed last has little to do with a fault of its own memory.
		return Crashed, strings.TrimSuffix(words+"; last it printed: "+last, "; last it printed: ")
	}
	return Crashed, last
}

// signals are ends that a program did not choose, by number.
var signals = map[int]string{4: "illegal instruction", 6: "abort", 7: "bus error", 8: "arithmetic fault", 11: "segmentation fault"}

// endOf names the signal that ended a program; empty: it ended by itself. A shell and a container's
// runtime report signals as 128 and their number.
func endOf(exit *int) string {
	if exit == nil {
		return ""
	}
	number := -*exit
	if *exit > 128 {
		number = *exit - 128
	}
	if name, is := signals[number]; is {
		return fmt.Sprintf("ended by signal %d, %s", number, name)
	}
	return ""
}
