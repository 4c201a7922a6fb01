package bench

import (
	"fmt"
	"slices"
	"strings"
)

// A Profile is the tool whose numbers a run reproduces (bench.md 0).
type Profile uint8

// The profiles.
const (
	VLLM     Profile = iota // current vllm bench serve, Python client
	VLLMRust                // the same with the compiled client
	VLLM011                 // vllm bench serve of autumn 2025
	LMDeploy                // profile_restful_api.py
	SGLang                  // bench_serving.py
	numProfiles
)

// profileNames are the values of --compat.
var profileNames = [numProfiles]string{"vllm", "vllm-rs", "vllm-0.11", "lmdeploy", "sglang"}

// String returns the name that --compat takes.
func (p Profile) String() string { return profileNames[p] }

// ParseProfile returns the profile that --compat names.
func ParseProfile(name string) (Profile, error) {
	if i := slices.Index(profileNames[:], name); i >= 0 {
		return Profile(i), nil
	}
	return 0, fmt.Errorf("profile %q: want one of %s", name, strings.Join(profileNames[:], ", "))
}

// MarshalText returns the name of p.
func (p Profile) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText reads the name of a profile.
func (p *Profile) UnmarshalText(name []byte) error {
	var err error
	*p, err = ParseProfile(string(name))
	return err
}

// plain reports whether p is one of the tools whose bodies have few members, whose
// requests open a connection each, and which sleep between one request and the next
// (bench.md 4).
func (p Profile) plain() bool { return p == LMDeploy || p == SGLang }
