package manifests

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"ossian/internal/command"
	"ossian/internal/command/bench"
	"ossian/internal/command/pull"
	"ossian/internal/command/serve"
	"ossian/internal/config"
	"ossian/internal/kvevents"
)

// A pod is what a resource makes pods of.
type pod struct {
	of     string // the resource
	labels map[string]string
	spec   corev1.PodSpec
	env    map[string]string // what the resource sets itself
}

// pods are those of all resources.
func pods(all []any) (found []pod) {
	for _, object := range all {
		switch o := object.(type) {
		case *appsv1.Deployment:
			found = append(found, pod{"Deployment " + o.Name, o.Spec.Template.Labels, o.Spec.Template.Spec, nil})
		case *batchv1.Job:
			found = append(found, pod{"Job " + o.Name, o.Spec.Template.Labels, o.Spec.Template.Spec, map[string]string{"JOB_COMPLETION_INDEX": "0"}})
		case *leaderWorkerSet:
			template := o.Spec.LeaderWorkerTemplate
			labels := map[string]string{"leaderworkerset.sigs.k8s.io/name": o.Name}
			for name, value := range template.WorkerTemplate.Labels {
				labels[name] = value
			}
			found = append(found, pod{"LeaderWorkerSet " + o.Name, labels, template.WorkerTemplate.Spec,
				map[string]string{"LWS_GROUP_SIZE": fmt.Sprint(template.Size), "LWS_WORKER_INDEX": "0", "LWS_LEADER_ADDRESS": o.Name + "-0." + o.Name}})
		}
	}
	return found
}

// A finding collects what is wrong.
type finding struct{ list []string }

func (f *finding) unless(ok bool, format string, values ...any) {
	if !ok {
		f.list = append(f.list, fmt.Sprintf(format, values...))
	}
}

// problems are what resources say that is not so.
func problems(t *testing.T, all []any) []string {
	found := new(finding)
	running := pods(all)
	for _, p := range running {
		p.check(t, found)
	}
	for _, object := range all {
		references(object, all, running, found)
	}
	return found.list
}

// check looks at a pod: what it may do, what it mounts, and how it starts the program.
func (p *pod) check(t *testing.T, found *finding) {
	security := p.spec.SecurityContext
	found.unless(security != nil && security.RunAsNonRoot != nil && *security.RunAsNonRoot && security.RunAsUser != nil && *security.RunAsUser == 65532 &&
		security.SeccompProfile != nil && security.SeccompProfile.Type == corev1.SeccompProfileTypeRuntimeDefault, "%s: not user 65532 with the seccomp profile of the runtime", p.of)
	found.unless(p.spec.AutomountServiceAccountToken != nil && !*p.spec.AutomountServiceAccountToken, "%s: the token of the service account is mounted", p.of)
	for _, c := range p.spec.Containers {
		own := c.SecurityContext
		found.unless(own != nil && own.ReadOnlyRootFilesystem != nil && *own.ReadOnlyRootFilesystem && own.AllowPrivilegeEscalation != nil && !*own.AllowPrivilegeEscalation &&
			own.Capabilities != nil && slices.Equal(own.Capabilities.Drop, []corev1.Capability{"ALL"}) && len(own.Capabilities.Add) == 0, "%s: the root can be written to, or capabilities are kept", p.of)
		for _, mount := range c.VolumeMounts {
			found.unless(slices.ContainsFunc(p.spec.Volumes, func(v corev1.Volume) bool { return v.Name == mount.Name }), "%s: no volume %s", p.of, mount.Name)
		}
		for name, most := range c.Resources.Limits {
			request := c.Resources.Requests[name]
			found.unless(most.Equal(request) && (name == "cpu" || name == "memory"), "%s: limit of %s %v, request %v", p.of, name, most.String(), request.String())
			found.unless(name != "cpu" || most.MilliValue()%1000 == 0, "%s: %s processors are not whole ones", p.of, most.String())
		}
		p.start(t, &c, found)
	}
}

// start has the program read the arguments of a container.
func (p *pod) start(t *testing.T, c *corev1.Container, found *finding) {
	env := map[string]string{}
	for name, value := range p.env {
		env[name] = value
	}
	for _, variable := range c.Env {
		env[variable.Name] = variable.Value
		if variable.ValueFrom != nil {
			env[variable.Name] = "2030-01-01T00:00:00Z" // what is read of these is --start-at, and the pod's address
			if field := variable.ValueFrom.FieldRef; field != nil && field.FieldPath == "status.podIP" {
				env[variable.Name] = "10.0.0.1"
			}
		}
	}
	var args []string
	for _, arg := range c.Args { // as the cluster does: $(NAME) of a variable that there is
		for name, value := range env {
			arg = strings.ReplaceAll(arg, "$("+name+")", value)
		}
		found.unless(!strings.Contains(arg, "$("), "%s: %s names no variable", p.of, arg)
		args = append(args, arg)
	}
	switch {
	case len(args) == 0:
		found.unless(false, "%s: no arguments", p.of)
	case args[0] == "serve":
		p.serves(t, c, args[1:], env, found)
	default:
		found.unless(parses(args), "%s: ossian %s: %v", p.of, strings.Join(args, " "), parseError(args))
	}
}

// parses reports whether the program takes the arguments of another command than serve.
func parses(args []string) bool { return parseError(args) == nil }

func parseError(args []string) error {
	root := command.Root(pull.Command(), bench.Command(bench.Serve{}))
	root.SetOut(io.Discard)
	root.SetErr(io.Discard)
	c, rest, err := root.Find(args)
	switch {
	case err != nil:
		return err
	case c == root:
		return fmt.Errorf("there is no command %s", args[0])
	case args[0] == "bench": // which makes the workload, of a few requests and another tokenizer
		root.SetArgs(append(slices.Clone(args), "--dry-run", "--tokenizer=ossian-tiny", "--num-prompts=4"))
		return root.Execute()
	}
	if err := c.ParseFlags(rest); err != nil {
		return err
	}
	return c.ValidateArgs(c.Flags().Args())
}

// serves compares a server with its settings, as the program reads them.
func (p *pod) serves(t *testing.T, c *corev1.Container, args []string, env map[string]string, found *finding) {
	var list []string
	for name, value := range env {
		list = append(list, name+"="+value)
	}
	mounted := func(path string) ([]byte, error) {
		for _, mount := range c.VolumeMounts {
			if strings.HasPrefix(path, mount.MountPath+"/") {
				return []byte("a-key\n"), nil
			}
		}
		return nil, os.ErrNotExist
	}
	cfg, err := config.Load(config.Source{Args: args, Env: list, ReadFile: mounted})
	if err != nil {
		found.unless(false, "%s: ossian serve %s: %v", p.of, strings.Join(args, " "), err)
		return
	}
	found.unless(cfg.Host == "0.0.0.0", "%s: nobody reaches --host %s", p.of, cfg.Host)
	p.tells(c, cfg.KVEvents, env, found)
	port := slices.IndexFunc(c.Ports, func(port corev1.ContainerPort) bool { return int(port.ContainerPort) == cfg.Port })
	found.unless(port >= 0, "%s: --port %d is none of the container's ports", p.of, cfg.Port)
	for name, probe := range map[string]*corev1.Probe{"startup": c.StartupProbe, "readiness": c.ReadinessProbe, "liveness": c.LivenessProbe} {
		if probe == nil || probe.HTTPGet == nil {
			found.unless(false, "%s: no %s probe", p.of, name)
			continue
		}
		want := map[string]string{"startup": "/health", "readiness": "/ready", "liveness": "/ping"}[name]
		found.unless(probe.HTTPGet.Path == want && status(t, probe.HTTPGet.Path, "") == http.StatusOK, "%s: %s probe asks for %s, which answers %d without a key; %s expected",
			p.of, name, probe.HTTPGet.Path, status(t, probe.HTTPGet.Path, ""), want)
		found.unless(portOf(c, probe.HTTPGet.Port) == int32(cfg.Port), "%s: %s probe asks port %s", p.of, name, probe.HTTPGet.Port.String())
	}
	grace, wait := time.Duration(0), time.Duration(0)
	if p.spec.TerminationGracePeriodSeconds != nil {
		grace = time.Duration(*p.spec.TerminationGracePeriodSeconds) * time.Second
	}
	if c.Lifecycle != nil && c.Lifecycle.PreStop != nil && c.Lifecycle.PreStop.Sleep != nil {
		wait = time.Duration(c.Lifecycle.PreStop.Sleep.Seconds) * time.Second
	}
	found.unless(wait >= 5*time.Second, "%s: requests still come when it is told to end: preStop.sleep is %v", p.of, wait)
	found.unless(grace >= wait+cfg.DrainTimeout+10*time.Second, "%s: %v are not enough for %v and %v of draining", p.of, grace, wait, cfg.DrainTimeout)
}

// tells has the program read what it is to tell of cached prefixes: routers connect to its ports.
func (p *pod) tells(c *corev1.Container, text string, env map[string]string, found *finding) {
	if text == "" {
		return
	}
	cfg, err := kvevents.ParseConfig(text, func(name string) (string, bool) { value, ok := env[name]; return value, ok })
	if err == nil {
		cfg, err = cfg.Of("m", 0, 1)
	}
	if err != nil {
		found.unless(false, "%s: %v", p.of, err)
		return
	}
	found.unless(cfg.On(), "%s: --kv-events-config is there and off", p.of)
	found.unless(cfg.Topic == "kv@10.0.0.1:8000@m", "%s: routers read pod, port and model from the topic, not from %s", p.of, cfg.Topic)
	for name, endpoint := range map[string]string{"kv-events": cfg.Endpoint, "kv-replay": cfg.ReplayEndpoint} {
		found.unless(endpoint == fmt.Sprintf("tcp://*:%d", portOf(c, intstr.FromString(name))), "%s: port %s is not that of %s", p.of, name, endpoint)
	}
}

// admitted compares the ports of a pod's containers with those that a network policy lets others
// connect to: what is listened to for others, and not admitted, nobody reaches.
func (p *pod) admitted(policy *networkingv1.NetworkPolicy, found *finding) {
	for _, port := range p.spec.Containers[0].Ports {
		found.unless(slices.ContainsFunc(policy.Spec.Ingress, func(rule networkingv1.NetworkPolicyIngressRule) bool {
			return slices.ContainsFunc(rule.Ports, func(of networkingv1.NetworkPolicyPort) bool {
				return portOf(&p.spec.Containers[0], *of.Port) == port.ContainerPort
			})
		}), "NetworkPolicy %s: nobody reaches port %s of %s", policy.Name, port.Name, p.of)
	}
}

// portOf is the number of a container's port, by number or name; 0 if it has none.
func portOf(c *corev1.Container, port intstr.IntOrString) int32 {
	for _, each := range c.Ports {
		if port.Type == intstr.String && each.Name == port.StrVal || port.Type == intstr.Int && each.ContainerPort == port.IntVal {
			return each.ContainerPort
		}
	}
	return 0
}

// matching are the pods that a selector selects.
func matching(running []pod, labels map[string]string) (found []pod) {
	for _, p := range running {
		all := len(labels) > 0
		for name, value := range labels {
			all = all && p.labels[name] == value
		}
		if all {
			found = append(found, p)
		}
	}
	return found
}

// references compares what a resource says of others with these.
func references(object any, all []any, running []pod, found *finding) {
	has := func(labels map[string]string, port intstr.IntOrString, of string) {
		selected := matching(running, labels)
		found.unless(len(selected) > 0, "%s: %v selects no pod", of, labels)
		for _, p := range selected {
			found.unless(portOf(&p.spec.Containers[0], port) > 0, "%s: %s has no port %s", of, p.of, port.String())
		}
	}
	switch o := object.(type) {
	case *appsv1.Deployment:
		found.unless(len(matching([]pod{{labels: o.Spec.Template.Labels}}, o.Spec.Selector.MatchLabels)) == 1, "Deployment %s selects other pods than its own", o.Name)
	case *corev1.Service:
		for _, port := range o.Spec.Ports {
			has(o.Spec.Selector, port.TargetPort, "Service "+o.Name)
		}
	case *networkingv1.NetworkPolicy:
		for _, rule := range o.Spec.Ingress {
			found.unless(len(rule.From) > 0 && len(rule.Ports) > 0, "NetworkPolicy %s lets everybody in", o.Name)
			for _, port := range rule.Ports {
				has(o.Spec.PodSelector.MatchLabels, *port.Port, "NetworkPolicy "+o.Name)
			}
		}
		for _, p := range matching(running, o.Spec.PodSelector.MatchLabels) {
			p.admitted(o, found)
		}
	case *inferencePool:
		found.unless(len(o.Spec.TargetPorts) > 0 && o.Spec.EndpointPickerRef.Name != "" && o.Spec.EndpointPickerRef.Port.Number > 0, "InferencePool %s has no ports, or no picker", o.Name)
		found.unless(slices.Contains([]string{"FailOpen", "FailClose"}, o.Spec.EndpointPickerRef.FailureMode), "InferencePool %s: failure mode %s", o.Name, o.Spec.EndpointPickerRef.FailureMode)
		for _, port := range o.Spec.TargetPorts {
			has(o.Spec.Selector.MatchLabels, intstr.FromInt32(port.Number), "InferencePool "+o.Name)
		}
		// The picker tells servers apart by this label, and sends no key.
		for _, p := range matching(running, o.Spec.Selector.MatchLabels) {
			found.unless(p.labels["llm-d.ai/engine-type"] == "vllm", "%s: its metrics have vLLM's names, its label does not say so", p.of)
			found.unless(slices.Contains(p.spec.Containers[0].Args, "--metrics-without-key"), "%s: its metrics ask for a key, the picker of its pool has none", p.of)
			found.unless(!slices.Contains(p.spec.Containers[0].Args, "--insecure"), "%s: everybody whom the gateway lets through may use it", p.of)
			found.unless(slices.ContainsFunc(all, func(other any) bool { _, is := other.(*networkingv1.NetworkPolicy); return is }), "%s: its metrics are open, and no network policy says who reaches it", p.of)
		}
	case *httpRoute:
		for _, rule := range o.Spec.Rules {
			for _, back := range rule.BackendRefs {
				found.unless(slices.ContainsFunc(all, func(other any) bool {
					pool, is := other.(*inferencePool)
					return is && pool.Name == back.Name && back.Kind == pool.Kind && back.Group+"/v1" == pool.APIVersion
				}), "HTTPRoute %s: no %s %s", o.Name, back.Kind, back.Name)
			}
			for _, match := range rule.Matches {
				found.unless(match.Path.Type == "PathPrefix" && match.Path.Value == "/v1", "HTTPRoute %s: path %+v", o.Name, match.Path)
			}
		}
	case *podMonitor:
		for _, endpoint := range o.Spec.PodMetricsEndpoints {
			has(o.Spec.Selector.MatchLabels, intstr.FromString(endpoint.Port), "PodMonitor "+o.Name)
			found.unless(endpoint.Path == "/metrics", "PodMonitor %s scrapes %s", o.Name, endpoint.Path)
		}
	}
}

// server is one of the program that is asked which routes there are.
var server struct {
	sync.Once
	address string
	err     error
	routes  sync.Map // path and key to status
}

// status is what the program answers to a path, with a key or without one.
func status(t *testing.T, path, key string) int {
	server.Do(func() {
		server.address, _, server.err = serve.Start(context.Background(), []string{"--port", "0", "--api-key", "a-key", "--store", "memory"}, io.Discard)
	})
	if server.err != nil {
		t.Fatal(server.err)
	}
	if known, ok := server.routes.Load(path + key); ok {
		return known.(int)
	}
	for {
		request, err := http.NewRequest(http.MethodGet, "http://"+server.address+path, nil)
		if err != nil {
			return 0
		}
		if key != "" {
			request.Header.Set("Authorization", "Bearer "+key)
		}
		reply, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		reply.Body.Close()
		if reply.StatusCode != http.StatusServiceUnavailable { // while its model loads
			server.routes.Store(path+key, reply.StatusCode)
			return reply.StatusCode
		}
		time.Sleep(10 * time.Millisecond)
	}
}
