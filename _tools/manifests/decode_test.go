// Package manifests holds the checks of deploy/: every file is decoded into the type that the
// cluster decodes it into, so that a misspelt member is found here, and what the manifests say of
// the program is compared with the program: its flags, its routes, its ports.
package manifests

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// root is where the manifests are.
const root = "../../deploy"

// Resources that others define, as far as the manifests use them: a member that is not here is
// one that nobody has checked.
type (
	// inferencePool is inference.networking.k8s.io/v1 (Gateway API Inference Extension).
	inferencePool struct {
		metav1.TypeMeta   `json:",inline"`
		metav1.ObjectMeta `json:"metadata"`
		Spec              struct {
			Selector struct {
				MatchLabels map[string]string `json:"matchLabels"`
			} `json:"selector"`
			TargetPorts []struct {
				Number int32 `json:"number"`
			} `json:"targetPorts"`
			AppProtocol       string `json:"appProtocol"`
			EndpointPickerRef struct {
				Name string `json:"name"`
				Port struct {
					Number int32 `json:"number"`
				} `json:"port"`
				FailureMode string `json:"failureMode"`
			} `json:"endpointPickerRef"`
		} `json:"spec"`
	}
	// httpRoute is gateway.networking.k8s.io/v1.
	httpRoute struct {
		metav1.TypeMeta   `json:",inline"`
		metav1.ObjectMeta `json:"metadata"`
		Spec              struct {
			ParentRefs []struct {
				Name string `json:"name"`
			} `json:"parentRefs"`
			Rules []struct {
				Matches []struct {
					Path struct {
						Type  string `json:"type"`
						Value string `json:"value"`
					} `json:"path"`
				} `json:"matches"`
				BackendRefs []struct {
					Group string `json:"group"`
					Kind  string `json:"kind"`
					Name  string `json:"name"`
				} `json:"backendRefs"`
				Timeouts struct {
					Request string `json:"request"`
				} `json:"timeouts"`
			} `json:"rules"`
		} `json:"spec"`
	}
	// podMonitor is monitoring.coreos.com/v1 (Prometheus operator).
	podMonitor struct {
		metav1.TypeMeta   `json:",inline"`
		metav1.ObjectMeta `json:"metadata"`
		Spec              struct {
			Selector            metav1.LabelSelector `json:"selector"`
			PodMetricsEndpoints []struct {
				Port          string `json:"port"`
				Path          string `json:"path"`
				Interval      string `json:"interval"`
				Authorization struct {
					Type        string                   `json:"type"`
					Credentials corev1.SecretKeySelector `json:"credentials"`
				} `json:"authorization"`
			} `json:"podMetricsEndpoints"`
		} `json:"spec"`
	}
	// leaderWorkerSet is leaderworkerset.x-k8s.io/v1.
	leaderWorkerSet struct {
		metav1.TypeMeta   `json:",inline"`
		metav1.ObjectMeta `json:"metadata"`
		Spec              struct {
			Replicas             int32 `json:"replicas"`
			LeaderWorkerTemplate struct {
				Size           int32                  `json:"size"`
				RestartPolicy  string                 `json:"restartPolicy"`
				WorkerTemplate corev1.PodTemplateSpec `json:"workerTemplate"`
			} `json:"leaderWorkerTemplate"`
		} `json:"spec"`
	}
)

// kinds are the types of resources, by version and kind.
var kinds = map[string]func() any{
	"apps/v1 Deployment":                           func() any { return new(appsv1.Deployment) },
	"batch/v1 Job":                                 func() any { return new(batchv1.Job) },
	"v1 Service":                                   func() any { return new(corev1.Service) },
	"v1 ConfigMap":                                 func() any { return new(corev1.ConfigMap) },
	"v1 PersistentVolumeClaim":                     func() any { return new(corev1.PersistentVolumeClaim) },
	"networking.k8s.io/v1 NetworkPolicy":           func() any { return new(networkingv1.NetworkPolicy) },
	"inference.networking.k8s.io/v1 InferencePool": func() any { return new(inferencePool) },
	"gateway.networking.k8s.io/v1 HTTPRoute":       func() any { return new(httpRoute) },
	"monitoring.coreos.com/v1 PodMonitor":          func() any { return new(podMonitor) },
	"leaderworkerset.x-k8s.io/v1 LeaderWorkerSet":  func() any { return new(leaderWorkerSet) },
}

// decode reads a resource, of which every member has to be known.
func decode(text []byte) (any, error) {
	var of metav1.TypeMeta
	if err := yaml.Unmarshal(text, &of); err != nil {
		return nil, err
	}
	make, known := kinds[of.APIVersion+" "+of.Kind]
	if !known {
		return nil, fmt.Errorf("%s %s: no type for it", of.APIVersion, of.Kind)
	}
	object := make()
	return object, yaml.UnmarshalStrict(text, object)
}

// built are the resources that kubectl apply -k would send for a folder.
func built(dir string) ([][]byte, error) {
	options := krusty.MakeDefaultOptions()
	found, err := krusty.MakeKustomizer(options).Run(filesys.MakeFsOnDisk(), dir)
	if err != nil {
		return nil, err
	}
	var all [][]byte
	for _, resource := range found.Resources() {
		text, err := resource.AsYAML()
		if err != nil {
			return nil, err
		}
		all = append(all, text)
	}
	return all, nil
}

// withComponent makes a folder of base and a component beside these.
func withComponent(t *testing.T, component string) string {
	t.Helper()
	dir := filepath.Join(filepath.Dir(component), "composed")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	text := "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources:\n  - ../base\ncomponents:\n  - ../" + filepath.Base(component) + "\n"
	if err := os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

// copied copies the manifests to a folder where they may be changed.
func copied(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "deploy")
	if err := os.CopyFS(dir, os.DirFS(root)); err != nil {
		t.Fatal(err)
	}
	return dir
}

// resources builds a folder of a copy, or a component on top of base, and decodes what comes out.
func resources(t *testing.T, dir string) ([]any, error) {
	t.Helper()
	head, err := os.ReadFile(filepath.Join(dir, "kustomization.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(head), "kind: Component") {
		dir = withComponent(t, dir)
	}
	texts, err := built(dir)
	if err != nil {
		return nil, err
	}
	var all []any
	for _, text := range texts {
		object, err := decode(text)
		if err != nil {
			return nil, fmt.Errorf("%w in\n%s", err, text)
		}
		all = append(all, object)
	}
	return all, nil
}

// Every folder builds, as kubectl apply -k would, and what comes out is decoded with every member
// known and says of the program what is so.
func TestManifests(t *testing.T) {
	found, err := filepath.Glob(root + "/*/kustomization.yaml")
	if err != nil || len(found) < 7 {
		t.Fatalf("%d kustomizations, %v", len(found), err)
	}
	for _, path := range found {
		name := filepath.Base(filepath.Dir(path))
		t.Run(name, func(t *testing.T) {
			all, err := resources(t, filepath.Join(copied(t), name))
			if err != nil {
				t.Fatal(err)
			}
			if len(all) == 0 {
				t.Fatal("nothing comes out")
			}
			for _, problem := range problems(t, all) {
				t.Error(problem)
			}
		})
	}
}

// The servers behind a gateway tell of cached prefixes, too, once the component is put in the place of
// the network policy that it brings along.
func TestEventsBehindGateway(t *testing.T) {
	dir := filepath.Join(copied(t), "inferencepool")
	path := filepath.Join(dir, "kustomization.yaml")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(strings.Replace(string(text), "../networkpolicy", "../kvevents", 1)), 0o644); err != nil {
		t.Fatal(err)
	}
	all, err := resources(t, dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, problem := range problems(t, all) {
		t.Error(problem)
	}
	told := false
	for _, p := range pods(all) {
		told = told || strings.Contains(strings.Join(p.spec.Containers[0].Args, " "), "--kv-events-config={")
	}
	if !told {
		t.Error("no pod tells of cached prefixes")
	}
}

// free are the members whose members are names that anybody may choose.
var free = []string{"matchLabels", "labels", "selector", "requests", "limits", "pairs"}

// A misspelt member is found, whichever it is.
func TestMisspeltMembers(t *testing.T) {
	files, err := filepath.Glob(root + "/*/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	for _, path := range files {
		if base := filepath.Base(path); base == "kustomization.yaml" || base == "ossian-custom.yaml" {
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := decode(text); err != nil {
			t.Errorf("%s: %v", path, err)
		}
		for at, wrong := range misspelt(t, text) {
			count++
			if _, err := decode(wrong); err == nil {
				t.Errorf("%s: %s misspelt is decoded all the same", path, at)
			}
		}
	}
	t.Logf("%d members misspelt", count)
	if count < 200 {
		t.Errorf("%d members misspelt, at least 200 wanted", count)
	}
}

// misspelt returns copies of a resource in each of which one member's name lacks its last letter,
// by where that member is.
func misspelt(t *testing.T, text []byte) map[string][]byte {
	t.Helper()
	var whole any
	if err := yaml.Unmarshal(text, &whole); err != nil {
		t.Fatal(err)
	}
	copies := map[string][]byte{}
	var walk func(node any, at string)
	walk = func(node any, at string) {
		switch node := node.(type) {
		case []any:
			for i := range node {
				walk(node[i], fmt.Sprintf("%s[%d]", at, i))
			}
		case map[string]any:
			for name, value := range node {
				if at != "" || name != "apiVersion" && name != "kind" { // which choose the type
					delete(node, name)
					node[name[:len(name)-1]+"_"] = value
					wrong, err := yaml.Marshal(whole)
					if err != nil {
						t.Fatal(err)
					}
					copies[at+"."+name] = wrong
					delete(node, name[:len(name)-1]+"_")
					node[name] = value
				}
				if !slices.Contains(free, name) || name == "selector" && hasSelector(value) {
					walk(value, at+"."+name)
				}
			}
		}
	}
	walk(whole, "")
	return copies
}

// hasSelector reports whether a selector is one with matchLabels, not labels themselves.
func hasSelector(value any) bool {
	members, ok := value.(map[string]any)
	return ok && members["matchLabels"] != nil
}
