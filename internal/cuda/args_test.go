package cuda

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"ossian/internal/cuda/driver"
	"ossian/internal/cuda/kernels"
)

// arguments has the Go type of each kernel's parameter. A name that ends with _ is the begin of
// several ones.
var arguments = map[string]any{
	"narrow":             narrowArgs{},
	"add_norm":           addNormArgs{},
	"add_norm_experts_4": addNormArgs{},
	"add_norm_experts_8": addNormArgs{},
	"select_rows":        selectArgs{},
	"glu":                gluArgs{},
	"rotate_store":       rotateStoreArgs{},
	"attend_":            attendArgs{},
	"sample_":            sampleArgs{},
	"sample_resolve":     resolveArgs{},
	"linear_":            productArgs{},
	"up_":                productArgs{},
	"down_":              productArgs{},
	"embed_":             embedArgs{},
	"route":              routeArgs{},
	"route_plan":         routeArgs{},
	"experts_plan":       planArgs{},
	"experts_combine":    combineArgs{},
	"experts_gather":     gatherArgs{},
	"join_":              joinArgs{},
	"allreduce":          allReduceArgs{},
	"wgmma_":             tensorProductArgs{},
	"conform_":           conformArgs{},
	"conform_box":        conformBoxArgs{},
	"measure_":           measureArgs{},
}

// measureArgs is MeasureArgs of kernels/measure.cu, which _tools/cuda/card launches.
type measureArgs struct {
	src, dst driver.Ptr
	pieces   uint64
	rounds   int32
	_        int32
}

// argumentsOf returns the Go type of a kernel's parameter.
func argumentsOf(kernel string) (args any, known bool) {
	if args, known = arguments[kernel]; known {
		return args, true
	}
	for name, args := range arguments {
		if strings.HasSuffix(name, "_") && strings.HasPrefix(kernel, name) {
			return args, true
		}
	}
	return nil, false
}

var (
	parameter = regexp.MustCompile(`(?m)^\.visible \.entry (\w+)\(\s*\.param \.align \d+ \.b8 \w+\[(\d+)\]\s*\)`)
	paramLoad = regexp.MustCompile(`(?m)ld\.param\.(?:v(\d)\.)?[a-z](\d+)\s+.*\[(\w+)_param_0(?:\+(\d+))?\]`)
)

// TestArguments compares the struct that Go passes to each kernel with what the kernel declares
// and loads: the size, and a field of the same width wherever it reads.
func TestArguments(t *testing.T) {
	for _, module := range kernels.Modules() {
		sizes := map[string]int{}
		for _, found := range parameter.FindAllSubmatch(module.PTX, -1) {
			sizes[string(found[1])], _ = strconv.Atoi(string(found[2]))
		}
		fields := map[string]map[int]int{}
		for _, kernel := range module.Entries {
			args, known := argumentsOf(kernel)
			switch size, found := sizes[kernel]; {
			case strings.HasPrefix(kernel, "_Z"):
				t.Errorf("%s: kernel %s has a name of C++: it wants extern \"C\"", module.Name, kernel)
			case !found:
				t.Errorf("%s: kernel %s has other parameters than one struct by value", module.Name, kernel)
			case !known:
				t.Errorf("%s: kernel %s wants a line in the table arguments of args_test.go", module.Name, kernel)
			default:
				kind := reflect.TypeOf(args)
				if int(kind.Size()) != size {
					t.Errorf("kernel %s takes %d bytes, %v has %d", kernel, size, kind, kind.Size())
				}
				fields[kernel] = widths(map[int]int{}, kind, 0)
			}
		}
		for _, found := range paramLoad.FindAllStringSubmatch(string(module.PTX), -1) {
			if fields[found[3]] != nil {
				checkLoad(t, found, fields[found[3]])
			}
		}
	}
}

// checkLoad compares a load of parameters with the fields of the struct: width by offset.
func checkLoad(t *testing.T, load []string, fields map[int]int) {
	t.Helper()
	count := max(1, number(load[1]))
	width, offset := number(load[2])/8, number(load[4])
	for i := range count {
		if got, ok := fields[offset+i*width]; !ok {
			t.Errorf("kernel %s loads %d bytes at %d of its struct, where no field of Go's begins", load[3], width, offset+i*width)
		} else if got != width {
			t.Errorf("kernel %s loads %d bytes at %d of its struct, where Go has a field of %d", load[3], width, offset+i*width, got)
		}
	}
}

// number returns a decimal number, 0 for an empty text.
func number(text string) int {
	n, _ := strconv.Atoi(text)
	return n
}

// widths notes the width of each number in a struct by its offset.
func widths(at map[int]int, kind reflect.Type, offset int) map[int]int {
	switch kind.Kind() {
	case reflect.Struct:
		for i := range kind.NumField() {
			widths(at, kind.Field(i).Type, offset+int(kind.Field(i).Offset))
		}
	case reflect.Array:
		for i := range kind.Len() {
			widths(at, kind.Elem(), offset+i*int(kind.Elem().Size()))
		}
	default:
		at[offset] = int(kind.Size())
	}
	return at
}

// TestArgumentLayout holds the rule for structs of arguments: no padding between fields.
func TestArgumentLayout(t *testing.T) {
	names := []string{}
	for name, args := range arguments {
		names = append(names, name)
		sum, end := 0, 0
		for offset, width := range widths(map[int]int{}, reflect.TypeOf(args), 0) {
			sum, end = sum+width, max(end, offset+width)
		}
		if sum != end {
			t.Errorf("%T has %d bytes of fields in the first %d: larger fields come first, so that none is moved", args, sum, end)
		}
	}
	slices.Sort(names)
	t.Log(fmt.Sprint(len(names), " kinds of arguments: ", names))
}
