package check

// What was seen of a server, whoever said it: answers, argument vector, start log. Settings are kept
// by the engine's own names with every place that told them; which of these counts is decided
// here once: what the running server says, before what it logged, before what it was told.

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"ossian/internal/bench"
	"ossian/internal/lab/check/exposition"
)

// The ranks of those who tell a setting.
const (
	byFlag = iota + 1
	byLog
	byAnswer
)

// A setting is one value that somebody told.
type setting struct {
	value string
	rank  int
	Evidence
}

// seen is everything that is known of a server.
type seen struct {
	url, engine, version, model, root string
	knownBy                           []Evidence
	others, notes                     []string
	asked                             []Asked
	argv                              []string // secrets hidden
	logged                            []string // flags that a start log has, where there is no argument vector
	cards                             int      // of the machine; 0 = not known
	env                               []string // variables of engines that are set by these
	metrics                           *exposition.Metrics
	settings                          map[string][]setting
	local                             bool
}

// look asks a server, and reads what was named beside it.
func look(ctx context.Context, options *Options) (*seen, error) {
	s := &seen{settings: map[string][]setting{}}
	base, access := options.URL, &options.Access
	if base == "" {
		ports := options.Ports
		if ports == nil {
			ports = DefaultPorts
		}
		found, err := find(ctx, ports)
		if err != nil {
			return nil, err
		}
		base, s.others = found[0], found[1:]
		access = nil // a key is for a server that was named
	}
	ask, err := newAsker(base, access)
	if err != nil {
		return nil, err
	}
	s.asked = ask.all(ctx)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := reached(ask.base, options.URL != "", s.asked); err != nil {
		return nil, err
	}
	s.url, s.local = ask.base, local(ask.base)
	if s.argv, s.env, err = arguments(options); err != nil {
		return nil, err
	}
	log, err := readLog(options.Log)
	if err != nil {
		return nil, err
	}
	// Who it is decides how everything else is read.
	s.metrics = exposition.Read(s.body("/metrics"))
	s.identify(log)
	s.readModels()
	s.readAnswers()
	s.readArguments()
	s.readLogLines(log, options.Log)
	return s, nil
}

// body is the answer to a route; nil = there is none.
func (s *seen) body(route string) []byte {
	for _, one := range s.asked {
		if one.Route == route {
			return one.body
		}
	}
	return nil
}

// tell keeps a setting.
func (s *seen) tell(name, value string, rank int, source, text string) {
	name = canonical(name)
	s.settings[name] = append(s.settings[name], setting{value, rank, Evidence{source, clip(text)}})
	slices.SortStableFunc(s.settings[name], func(a, b setting) int { return b.rank - a.rank })
}

// canonical is a setting's name as everybody may write it: max-num-seqs, max_num_seqs.
func canonical(name string) string { return strings.ReplaceAll(strings.ToLower(name), "-", "_") }

// clip is a text of others for a report: one line, not long.
func clip(text string) string {
	const most = 200
	text = bench.OneLine(strings.ToValidUTF8(text, "\uFFFD"))
	if letters := []rune(text); len(letters) > most {
		return string(letters[:most]) + "…"
	}
	return text
}

// get is the setting of the first of several names that was told.
func (s *seen) get(names ...string) (setting, bool) {
	for _, name := range names {
		if all := s.settings[canonical(name)]; len(all) > 0 {
			return all[0], true
		}
	}
	return setting{}, false
}

// evidence is everything that told the settings of these names, the weightiest first.
func (s *seen) evidence(names ...string) (out []Evidence) {
	for _, name := range names {
		for _, one := range s.settings[canonical(name)] {
			if !slices.Contains(out, one.Evidence) {
				out = append(out, one.Evidence)
			}
		}
	}
	return out
}

// number is a setting as a number.
func (s *seen) number(names ...string) (float64, bool) {
	one, ok := s.get(names...)
	if !ok {
		return 0, false
	}
	value, err := strconv.ParseFloat(strings.ReplaceAll(one.value, ",", ""), 64)
	return value, err == nil
}

// truth is a setting as yes or no.
func (s *seen) truth(names ...string) (yes, known bool) {
	one, ok := s.get(names...)
	if !ok {
		return false, false
	}
	return truthOf(one.value)
}

// truthOf reads yes and no as programs write them.
func truthOf(word string) (yes, known bool) {
	switch strings.ToLower(word) {
	case "true", "1", "yes", "on", "enabled":
		return true, true
	case "false", "0", "no", "off", "disabled":
		return false, true
	}
	return false, false
}

// none reports whether a value says that there is nothing.
func none(value string) bool {
	return value == "" || slices.Contains([]string{"none", "null", "[]", "{}", "off", "disabled"}, strings.ToLower(value))
}

// metric is the value of a metric, with itself as evidence: series of several ranks are added up, but for
// shares, of which the largest counts.
func (s *seen) metric(name string) (float64, Evidence, bool) {
	value, ok := s.metrics.Sum(name)
	if strings.Contains(name, "usage") || strings.Contains(name, "_rate") {
		value, ok = s.metrics.Most(name)
	}
	return value, Evidence{"metric " + name, formatNumber(value)}, ok
}

// readModels takes the model's name from /v1/models, or from Ollama's list of those that run.
func (s *seen) readModels() {
	var list struct {
		Data []struct {
			ID          string          `json:"id"`
			Root        string          `json:"root"`
			MaxModelLen json.Number     `json:"max_model_len"`
			Meta        json.RawMessage `json:"meta"`
		} `json:"data"`
	}
	if json.Unmarshal(s.body("/v1/models"), &list) != nil || len(list.Data) == 0 {
		return
	}
	first := list.Data[0]
	s.model, s.root = clip(first.ID), clip(first.Root)
	if s.root == "" {
		s.root = s.model
	}
	if n := first.MaxModelLen.String(); n != "" {
		s.tell("max_model_len", n, byAnswer, "route /v1/models", "max_model_len "+n)
	}
	s.tellObject("", first.Meta, "route /v1/models")
}

// readAnswers keeps what routes other than metrics say of settings.
func (s *seen) readAnswers() {
	var version struct {
		Version string `json:"version"`
	}
	if json.Unmarshal(s.body("/version"), &version) == nil && version.Version != "" {
		s.version = clip(version.Version)
	}
	s.tellObject("", s.body("/get_server_info"), "route /get_server_info")
	s.tellObject("", s.body("/props"), "route /props")
	for _, info := range []string{s.prefix() + ":cache_config_info", "ossian_cpu_info", "ossian_config_info", "sglang:cache_config_info", "lmdeploy:backend_config_info"} {
		for name, value := range s.metrics.Labels(info) {
			if name != "engine" && name != "model_name" {
				s.tell(name, value, byAnswer, "metric "+info, name+"="+value)
			}
		}
	}
	s.readOllama()
	s.readIterations()
	if told, ok := s.get("version", "build_info"); ok && s.version == "" {
		s.version = told.value
	}
}

// prefix is that of metrics which several engines share: ossian serve can be told another.
func (s *seen) prefix() string {
	for name := range s.metrics.Names {
		if before, ok := strings.CutSuffix(name, ":cache_config_info"); ok && before != "sglang" {
			return before
		}
	}
	return "vllm"
}

// tellObject keeps the members of a JSON object; those of objects within have names with dots, and
// also their own where that is not taken.
func (s *seen) tellObject(path string, text []byte, source string) {
	var members map[string]json.RawMessage
	if json.Unmarshal(text, &members) != nil {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		raw := strings.TrimSpace(string(members[name]))
		switch {
		case strings.HasPrefix(raw, "{") && strings.Count(path, ".") < 4:
			s.tellObject(path+name+".", members[name], source)
		case strings.HasPrefix(raw, "[{") && strings.Count(path, ".") < 4: // of the first device or rank
			var first []json.RawMessage
			if json.Unmarshal(members[name], &first) == nil && len(first) > 0 {
				s.tellObject(path+name+".", first[0], source)
			}
		case len(raw) <= 4096 && !secret(name):
			value := raw
			var word string
			if json.Unmarshal(members[name], &word) == nil {
				value = word
			}
			s.tell(path+name, value, byAnswer, source, path+name+"="+value)
		}
	}
}

// secret reports whether a setting's name says that its value is nobody's business.
func secret(name string) bool {
	name = strings.ToLower(name)
	return strings.Contains(name, "key") || strings.Contains(name, "token_file") || strings.Contains(name, "password") || strings.Contains(name, "template")
}

// readOllama keeps what Ollama says of the model that is loaded.
func (s *seen) readOllama() {
	var list struct {
		Models []json.RawMessage `json:"models"`
	}
	if json.Unmarshal(s.body("/api/ps"), &list) != nil || len(list.Models) == 0 {
		return
	}
	s.tellObject("", list.Models[0], "route /api/ps")
	if name, ok := s.get("name"); ok {
		s.model, s.root = name.value, name.value
	}
}

// readIterations keeps the last of TensorRT-LLM's statistics, which it sends as a JSON list.
func (s *seen) readIterations() {
	var all []json.RawMessage
	if json.Unmarshal(s.body("/metrics"), &all) == nil && len(all) > 0 {
		s.tellObject("", all[len(all)-1], "route /metrics")
	}
}

// server is what is told to those who measure.
func (s *seen) server() *Server {
	out := &Server{URL: s.url, Engine: s.engine, Version: s.version, Model: s.model, Root: s.root, Local: s.local, Settings: map[string]string{}}
	for name, all := range s.settings {
		out.Settings[name] = all[0].value
	}
	if named, ok := s.get("model", "model_path", "model_tag"); ok {
		out.Root = named.value
	}
	if out.Played = s.played(); out.Played != nil && out.Played.Model != "" {
		out.Root = out.Played.Model
	}
	// Names of counters are those of the report's figures.
	told := map[string]float64{}
	for _, one := range s.counters().Counters {
		told[one.Name] = one.Value
	}
	out.Served.AtOnce = int(told["running"] + told["waiting"])
	if n := told["requests finished"]; n > 0 {
		out.Served.Input, out.Served.Output = told["prompt tokens"]/n, told["generated tokens"]/n
	}
	return out
}

// readLog reads a start log, at most its first part: that is where starts are told.
func readLog(name string) ([]string, error) {
	if name == "" {
		return nil, nil
	}
	const most = 64 << 20
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		return nil, fmt.Errorf("--log %s is a directory: a file with the log of a start expected", name)
	}
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	text := make([]byte, min(info.Size(), most))
	n, err := file.ReadAt(text, 0)
	if n == 0 && err != nil && info.Size() > 0 {
		return nil, fmt.Errorf("--log %s: %w", name, err)
	}
	return strings.Split(strings.ToValidUTF8(string(text[:n]), "\uFFFD"), "\n"), nil
}
