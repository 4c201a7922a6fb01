package ckpt

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"ossian/internal/lazyregexp"
	"ossian/internal/model"
	"ossian/internal/tensor"
)

// An assembler finds the stored form of every parameter of a Spec. The first error sticks;
// after it every method returns a zero tensor, so that compositions read straight down.
type assembler struct {
	spec    *model.Spec
	arch    string // general.architecture of a GGUF file
	where   string // file to name when a tensor is missing
	tensors map[string]stored
	used    map[string]bool // stored tensors that a parameter was made of
	err     error
}

func newAssembler(where string, tensors map[string]stored) *assembler {
	return &assembler{where: where, tensors: tensors, used: map[string]bool{}}
}

// assemble builds all parameters of the Spec; build returns the one named part of a layer
// (-1 outside of layers), with the shape the Spec asks for.
func (a *assembler) assemble(build func(layer int, part string, shape []int) tensor.Tensor) (map[string]tensor.Tensor, error) {
	params := map[string]tensor.Tensor{}
	for _, param := range model.Params(a.spec) {
		layer, part := -1, param.Name
		if rest, ok := strings.CutPrefix(param.Name, "layers."); ok {
			number, name, _ := strings.Cut(rest, ".")
			layer, _ = strconv.Atoi(number)
			part = name
		}
		built := build(layer, part, param.Shape)
		if a.err != nil {
			return nil, a.err
		}
		// Matrices may be of any type; vectors are added as they are.
		if dims := len(param.Shape); dims == 1 || strings.HasSuffix(part, "_bias") {
			if block, _ := built.DType.Block(); block != 1 {
				return nil, a.refuse(built.Name, "type", "F32, F16 or BF16 for a vector", built.DType)
			}
		}
		params[param.Name] = built
	}
	return params, model.CheckParams(a.spec, params)
}

// refuse returns an Unsupported error about the stored tensor name.
func (a *assembler) refuse(name, problem, want string, got any) error {
	if found, ok := a.tensors[name]; ok {
		return found.error(Unsupported, problem, want, got)
	}
	return &Error{Kind: Unsupported, File: a.where, Tensor: name, Offset: -1, Problem: problem, Want: want, Got: fmt.Sprint(got)}
}

// find returns the first of names that is stored.
func (a *assembler) find(names ...string) (stored, bool) {
	for _, name := range names {
		if found, ok := a.tensors[name]; ok {
			return found, true
		}
	}
	return stored{}, false
}

// raw takes the first of names, with this shape and this type (Invalid: any type
// that has a decoder). Every tensor read passes here.
func (a *assembler) raw(dtype tensor.DType, shape []int, names ...string) tensor.Tensor {
	if a.err != nil {
		return tensor.Tensor{}
	}
	// What the container says is checked against what the configuration asks for: neither is
	// believed alone.
	found, ok := a.find(names...)
	switch {
	case !ok:
		a.err = &Error{Kind: Incomplete, File: a.where, Tensor: names[0], Offset: -1,
			Problem: fmt.Sprintf("a tensor of shape %v is missing", shape)}
	case dtype == tensor.Invalid && !found.dtype.Numeric():
		a.err = found.error(Unsupported, "type", supportedTypes, found.typeName)
	case dtype != tensor.Invalid && found.dtype != dtype:
		a.err = found.error(Unsupported, "type", dtype.String(), found.typeName)
	case !slices.Equal(found.shape, shape):
		a.err = found.error(Inconsistent, "shape", fmt.Sprintf("%v from the configuration", shape), found.shape)
	}
	if a.err != nil {
		return tensor.Tensor{}
	}
	a.used[found.name] = true
	return found.view()
}

// take is raw with any type that has a decoder.
func (a *assembler) take(shape []int, names ...string) tensor.Tensor {
	return a.raw(tensor.Invalid, shape, names...)
}

// try keeps the error of a composition, which only differing types of experts can cause.
func (a *assembler) try(t tensor.Tensor, err error) tensor.Tensor {
	if err != nil && a.err == nil {
		a.err = unsupported(a.where, err.Error(), "", "")
	}
	return t
}

// rows returns rows first to first+n of a plain matrix or elements of a vector.
func rows(t tensor.Tensor, first, n int) tensor.Tensor {
	if t.Data == nil { // an earlier error
		return t
	}
	size := len(t.Data) / t.Shape[0]
	t.Data = t.Data[first*size : (first+n)*size]
	t.Shape = append([]int{n}, t.Shape[1:]...)
	if t.Drop != nil { // mapped
		t.Drop = dropper(t.Data)
	}
	return t
}

// interleaved joins a gate and an up projection.
func (a *assembler) interleaved(join func(string, tensor.Tensor, tensor.Tensor) (tensor.Tensor, error), gate, up tensor.Tensor) tensor.Tensor {
	if a.err != nil {
		return tensor.Tensor{}
	}
	return a.try(join(gate.Name+" + "+up.Name, gate, up))
}

// layerName finds the number of the layer that a stored tensor belongs to.
var layerName = lazyregexp.New(`^(?:model\.layers|blk|block)\.(\d+)\.`)

// checkLayers refuses a configuration with fewer layers than are stored: the model
// would run without them and say nonsense. config is the file that has the number.
func (m *Model) checkLayers(config string) error {
	for _, name := range m.Unknown {
		found := layerName.FindStringSubmatch(name)
		if found == nil {
			continue
		}
		if n, err := strconv.Atoi(found[1]); err == nil && n >= m.Spec.Layers {
			return &Error{Kind: Inconsistent, File: config, Tensor: name, Offset: -1, Problem: "number of layers",
				Want: fmt.Sprintf("at least %d, since this tensor is stored", n+1), Got: strconv.Itoa(m.Spec.Layers)}
		}
	}
	return nil
}

// unknown lists the stored tensors that nothing uses, sorted.
func (a *assembler) unknown(ignore ...string) []string {
	var names []string
	for name := range a.tensors {
		if !a.used[name] && !slices.Contains(ignore, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
