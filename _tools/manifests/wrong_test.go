package manifests

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"ossian/internal/config"
)

// What is misspelt in a copy is found: values that only the program, or another resource, knows.
func TestMisspeltValues(t *testing.T) {
	for _, test := range []struct{ folder, file, right, wrong, says string }{
		{"base", "deployment.yaml", "path: /ready", "path: /redy", "readiness probe asks for /redy"},
		{"base", "deployment.yaml", "path: /health", "path: /version", "startup probe asks for /version, which answers 401"},
		{"base", "deployment.yaml", "port: http", "port: htpp", "asks port htpp"},
		{"base", "deployment.yaml", "containerPort: 8000", "containerPort: 8080", "--port 8000 is none"},
		{"base", "deployment.yaml", "--drain-timeout=30s", "--drain-timout=30s", "did you mean --drain-timeout?"},
		{"base", "deployment.yaml", "--drain-timeout=30s", "--drain-timeout=40s", "not enough"},
		{"base", "deployment.yaml", "            - --api-key-file=/etc/ossian/keys\n", "", "lets other machines connect"},
		{"base", "deployment.yaml", "/etc/ossian/keys", "/etc/osian/keys", "--api-key-file"},
		{"base", "deployment.yaml", "            - --host=0.0.0.0\n", "", "nobody reaches"},
		{"base", "deployment.yaml", "- name: models\n          persistent", "- name: model\n          persistent", "no volume models"},
		{"base", "deployment.yaml", "runAsUser: 65532", "runAsUser: 0", "not user 65532"},
		{"base", "deployment.yaml", "readOnlyRootFilesystem: true", "readOnlyRootFilesystem: false", "can be written to"},
		{"base", "deployment.yaml", "- ALL", "- NET_RAW", "capabilities"},
		{"base", "deployment.yaml", "cpu: \"8\"\n              memory: 24Gi\n            limits", "cpu: 7500m\n              memory: 24Gi\n            limits", "request 7500m"},
		{"base", "deployment.yaml", "seconds: 5", "seconds: 1", "preStop.sleep"},
		{"base", "service.yaml", "targetPort: http", "targetPort: web", "has no port web"},
		{"inferencepool", "inferencepool.yaml", "number: 8000", "number: 8001", "has no port 8001"},
		{"inferencepool", "inferencepool.yaml", "name: ossian\n  targetPorts", "name: osian\n  targetPorts", "selects no pod"},
		{"inferencepool", "inferencepool.yaml", "FailOpen", "FailOpn", "failure mode"},
		{"inferencepool", "httproute.yaml", "name: ossian\n      # Answers", "name: osian\n      # Answers", "no InferencePool osian"},
		{"inferencepool", "kustomization.yaml", "--metrics-without-key", "--metrics-without-keys", "--metrics-without-key?"},
		{"inferencepool", "kustomization.yaml", "--metrics-without-key", "--enable-prefix-caching", "its metrics ask for a key"},
		{"inferencepool", "kustomization.yaml", "components:\n  - ../networkpolicy\n", "", "no network policy"},
		{"inferencepool", "../base/deployment.yaml", "--api-key-file=/etc/ossian/keys", "--insecure", "everybody"},
		{"inferencepool", "kustomization.yaml", "components:", "component:", "unknown field"},
		{"inferencepool", "../base/deployment.yaml", "llm-d.ai/engine-type: vllm", "llm-d.ai/engine-type: vlm", "its label does not say so"},
		{"networkpolicy", "networkpolicy.yaml", "port: http", "port: htp", "has no port htp"},
		{"networkpolicy", "networkpolicy.yaml", "kubernetes.io/name: ossian", "kubernetes.io/name: osian", "selects no pod"},
		{"kvevents", "kustomization.yaml", "          port: kv-replay", "          port: kv-events", "nobody reaches port kv-replay"},
		{"kvevents", "kustomization.yaml", "tcp://*:5556", "tcp://*:5558", "port kv-events is not that of tcp://*:5558"},
		{"kvevents", "kustomization.yaml", "replay_endpoint", "replay_endpont", "replay_endpont"},
		{"kvevents", "kustomization.yaml", "name: POD_IP", "name: POD_ADDRESS", "POD_IP"},
		{"kvevents", "kustomization.yaml", "status.podIP", "status.hostIP", "routers read pod, port and model from the topic"},
		{"podmonitor", "podmonitor.yaml", "port: http", "port: htp", "has no port htp"},
		{"podmonitor", "podmonitor.yaml", "path: /metrics", "path: /metric", "scrapes /metric"},
		{"leaderworkerset", "leaderworkerset.yaml", "size: 1", "size: 2", "only 1 is possible: a model runs on one machine"},
		{"leaderworkerset", "service.yaml", "sigs.k8s.io/name: ossian", "sigs.k8s.io/name: osian", "selects no pod"},
		{"benchmark", "job.yaml", "$(JOB_COMPLETION_INDEX)/4", "$(JOB_COMPLETION_INDX)/4", "names no variable"},
		{"benchmark", "job.yaml", "--request-rate=40", "--request-rat=40", "request-rat"},
		{"benchmark", "job.yaml", "$(JOB_COMPLETION_INDEX)/4", "4/4", "want 0/N"},
		{"models", "job.yaml", "- pull", "- pul", "pul"},
	} {
		dir := filepath.Join(copied(t), test.folder)
		path := filepath.Join(dir, test.file)
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), test.right) {
			t.Errorf("%s: there is no %q", test.file, test.right)
			continue
		}
		if err := os.WriteFile(path, []byte(strings.ReplaceAll(string(text), test.right, test.wrong)), 0o644); err != nil {
			t.Fatal(err)
		}
		all, err := resources(t, dir)
		found := problems(t, all)
		if err != nil {
			found = append(found, err.Error())
		}
		if !slices.ContainsFunc(found, func(problem string) bool { return strings.Contains(problem, test.says) }) {
			t.Errorf("%s with %q in the place of %q: %q, want %q", test.file, test.wrong, test.right, found, test.says)
		}
	}
}

// A gpuStackBackend is a custom backend of GPUStack (its documentation, "Custom inference backends").
type gpuStackBackend struct {
	BackendName       string   `json:"backend_name"`
	DefaultVersion    string   `json:"default_version"`
	HealthCheckPath   string   `json:"health_check_path"`
	DefaultRunCommand string   `json:"default_run_command"`
	ParameterFormat   string   `json:"parameter_format"`
	CommonParameters  []string `json:"common_parameters"`
	VersionConfigs    map[string]struct {
		ImageName       string `json:"image_name"`
		CustomFramework string `json:"custom_framework"`
	} `json:"version_configs"`
}

// gpuStack says what is wrong with a backend for GPUStack.
func gpuStack(t *testing.T, text string) error {
	backend := new(gpuStackBackend)
	if err := yaml.UnmarshalStrict([]byte(text), backend); err != nil {
		return err
	}
	found := new(finding)
	found.unless(strings.HasSuffix(backend.BackendName, "-custom"), "name %s", backend.BackendName)
	found.unless(backend.VersionConfigs[backend.DefaultVersion].ImageName != "", "no version %s", backend.DefaultVersion)
	found.unless(status(t, backend.HealthCheckPath, "") == 200, "health path %s", backend.HealthCheckPath)
	found.unless(backend.ParameterFormat == "space" || backend.ParameterFormat == "equal", "parameter format %s", backend.ParameterFormat)
	for version, of := range backend.VersionConfigs {
		found.unless(slices.Contains([]string{"cpu", "cuda"}, of.CustomFramework), "version %s: framework %s", version, of.CustomFramework)
	}
	values := map[string]string{"{{model_path}}": "/models/m", "{{worker_ip}}": "10.0.0.1", "{{port}}": "40000", "{{model_name}}": "m"}
	words := strings.Fields(backend.DefaultRunCommand)
	for i, word := range words {
		if strings.HasPrefix(word, "{{") {
			words[i] = values[word]
			found.unless(words[i] != "", "placeholder %s", word)
		}
	}
	found.unless(words[0] == "serve", "command %s", words[0])
	for _, parameter := range backend.CommonParameters {
		value := "1"
		if parameter == "--kv-cache-dtype" {
			value = "fp8"
		}
		words = append(words, parameter, value)
	}
	cfg, err := config.Load(config.Source{Args: words[1:]})
	if err != nil {
		return err
	}
	found.unless(cfg.Host == "10.0.0.1" && cfg.Port == 40000 && cfg.Model == "/models/m" && cfg.Threads == 1, "settings %+v", cfg.Settings)
	if len(found.list) > 0 {
		return &wrong{found.list}
	}
	return nil
}

// A wrong is an error of several lines.
type wrong struct{ list []string }

func (w *wrong) Error() string { return strings.Join(w.list, "\n") }

// GPUStack's backend is decoded strictly, and the program takes what it is started with.
func TestGPUStack(t *testing.T) {
	text, err := os.ReadFile(root + "/gpustack/ossian-custom.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if err := gpuStack(t, string(text)); err != nil {
		t.Error(err)
	}
	for right, bad := range map[string]string{"health_check_path:": "health_path:", "/health": "/healthz", "--served-model-name": "--served-model-nam", "{{port}}": "{{prt}}", "--threads": "--thread",
		"default_version: \"1\"": "default_version: \"2\"", "ossian-custom": "ossian", " --insecure": "", "custom_framework: cuda": "custom_framework: coda"} {
		if !strings.Contains(string(text), right) || gpuStack(t, strings.ReplaceAll(string(text), right, bad)) == nil {
			t.Errorf("%q in the place of %q is not found", bad, right)
		}
	}
}
