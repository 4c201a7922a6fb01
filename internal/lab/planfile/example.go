package planfile

import _ "embed"

// Example is a commented plan with every key.
//
//go:embed example.yaml
var Example string
