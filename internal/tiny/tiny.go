// Package tiny is the model inside the program: ossian-tiny, a gpt-oss of nine
// million parameters that is trained from nothing by _tools/tinymodel. Its model
// card is README.md beside the weights.
package tiny

import (
	"embed"
	"io/fs"
)

// Name is what the model is called where a model can be named.
const Name = "ossian-tiny"

//go:embed ossian-tiny/*.json ossian-tiny/chat_template.jinja ossian-tiny/model.safetensors
var files embed.FS

// FS is the directory of the model, in Hugging Face layout.
func FS() fs.FS {
	dir, err := fs.Sub(files, Name)
	if err != nil {
		panic(err) // the name is a constant
	}
	return dir
}
