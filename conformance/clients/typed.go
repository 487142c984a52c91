package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/util/retry"
)

// protobuf is the default content type of typed clientsets.
const protobuf = "application/vnd.kubernetes.protobuf"

// own is the label of the program's objects.
const own = "clients.windlass.dev/program"

// verbs are the methods of every typed client; T is the object's type, L the list's.
type verbs[T metav1.Object, L runtime.Object] interface {
	Create(context.Context, T, metav1.CreateOptions) (T, error)
	Get(context.Context, string, metav1.GetOptions) (T, error)
	List(context.Context, metav1.ListOptions) (L, error)
	Update(context.Context, T, metav1.UpdateOptions) (T, error)
	Patch(context.Context, string, types.PatchType, []byte, metav1.PatchOptions, ...string) (T, error)
	Delete(context.Context, string, metav1.DeleteOptions) error
	Watch(context.Context, metav1.ListOptions) (watch.Interface, error)
}

// subject is an object for the lifecycle test.
type subject[T metav1.Object] struct {
	kind   string
	object T
	// stored returns an error if the stored object differs from the sent one.
	stored func(T) error
	// change makes a change that is specific to the kind, and changed reports whether it is stored.
	change  func(T)
	changed func(T) bool
}

func typed(ctx context.Context, t *target) error {
	core := t.client.CoreV1()
	if version, err := t.client.Discovery().ServerVersion(); err != nil || !strings.HasPrefix(version.GitVersion, "v1.") {
		return fmt.Errorf("the server's version: %v, %w", version, err)
	}
	for _, life := range []func() error{
		func() error { return live(ctx, core.ConfigMaps(t.namespace), configMap()) },
		func() error { return live(ctx, core.Secrets(t.namespace), secret()) },
		func() error { return live(ctx, core.Services(t.namespace), service()) },
		func() error { return live(ctx, core.Pods(t.namespace), pod()) },
		func() error { return live(ctx, t.client.AppsV1().Deployments(t.namespace), deployment()) },
		func() error { return live(ctx, core.Namespaces(), namespace(t.namespace+"-other")) },
		func() error { return live(ctx, core.Nodes(), node(t.namespace)) },
		func() error { return live(ctx, core.Events(t.namespace), event(t.namespace)) },
		func() error { return live(ctx, t.client.CoordinationV1().Leases(t.namespace), lease()) },
		func() error { return subresources(ctx, t) },
		func() error { return collections(ctx, t) },
	} {
		if err := life(); err != nil {
			return err
		}
	}
	return spokeProtobuf(t.wire.all())
}

// live tests create, get, list, watch, update, patch and delete, and their errors.
func live[T metav1.Object, L runtime.Object](ctx context.Context, client verbs[T, L], subject subject[T]) error {
	name := subject.object.GetName()
	fail := func(verb string, err error) error { return fmt.Errorf("%s %s %s: %w", verb, subject.kind, name, err) }
	selector := metav1.ListOptions{LabelSelector: own + "=typed"}
	subject.object.SetLabels(map[string]string{own: "typed"})

	before, err := client.List(ctx, selector)
	if err != nil {
		return fail("list before", err)
	}
	since, err := meta.ListAccessor(before)
	if err != nil {
		return fail("list before", err)
	}

	if _, err := client.Create(ctx, subject.object, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}); err != nil {
		return fail("create without effect", err)
	}
	if _, err := client.Get(ctx, name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		return fail("get after a dry run", fmt.Errorf("not found is expected, not %v", err))
	}
	created, err := client.Create(ctx, subject.object, metav1.CreateOptions{FieldManager: "clients"})
	if err != nil {
		return fail("create", err)
	}
	born := created.GetCreationTimestamp()
	if created.GetUID() == "" || created.GetResourceVersion() == "" || born.IsZero() {
		return fail("create", fmt.Errorf("the answer lacks uid, resourceVersion or creationTimestamp"))
	}
	if len(created.GetManagedFields()) == 0 || created.GetManagedFields()[0].Manager != "clients" {
		return fail("create", fmt.Errorf("the field manager is not recorded: %v", created.GetManagedFields()))
	}
	if _, err := client.Create(ctx, subject.object, metav1.CreateOptions{}); !apierrors.IsAlreadyExists(err) {
		return fail("create again", fmt.Errorf("already exists is expected, not %v", err))
	}

	got, err := client.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return fail("get", err)
	}
	if got.GetUID() != created.GetUID() {
		return fail("get", fmt.Errorf("uid %s, created as %s", got.GetUID(), created.GetUID()))
	}
	if err := subject.stored(got); err != nil {
		return fail("get", err)
	}
	if err := listed(ctx, client, selector, name); err != nil {
		return fail("list", err)
	}

	var updated T
	err = retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		current, err := client.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		subject.change(current)
		updated, err = client.Update(ctx, current, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		return fail("update", err)
	}
	if !subject.changed(updated) || updated.GetResourceVersion() == created.GetResourceVersion() {
		return fail("update", fmt.Errorf("the change is not in the answer: %v", updated))
	}
	subject.change(created)
	if _, err := client.Update(ctx, created, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		return fail("update from an old version", fmt.Errorf("a conflict is expected, not %v", err))
	}

	for _, patch := range []struct {
		kind types.PatchType
		body string
	}{
		{types.StrategicMergePatchType, `{"metadata":{"annotations":{"patched":"strategic"}}}`},
		{types.MergePatchType, `{"metadata":{"annotations":{"patched":"merge"}}}`},
		{types.JSONPatchType, `[{"op":"replace","path":"/metadata/annotations/patched","value":"json"}]`},
	} {
		patched, err := client.Patch(ctx, name, patch.kind, []byte(patch.body), metav1.PatchOptions{})
		if err != nil {
			return fail("patch "+string(patch.kind), err)
		}
		if value := patched.GetAnnotations()["patched"]; value == "" || !strings.Contains(string(patch.kind), value) {
			return fail("patch "+string(patch.kind), fmt.Errorf("the annotation is %q", value))
		}
	}

	wrong := types.UID("00000000-0000-0000-0000-000000000000")
	err = client.Delete(ctx, name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &wrong}})
	if !apierrors.IsConflict(err) {
		return fail("delete another uid", fmt.Errorf("a conflict is expected, not %v", err))
	}
	now, policy := int64(0), metav1.DeletePropagationBackground
	err = client.Delete(ctx, name, metav1.DeleteOptions{GracePeriodSeconds: &now, PropagationPolicy: &policy})
	if err != nil {
		return fail("delete", err)
	}
	err = eventually(ctx, "the end of "+subject.kind+" "+name, func(ctx context.Context) error {
		if _, err := client.Get(ctx, name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("not found is expected, not %v", err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	selector.ResourceVersion = since.GetResourceVersion()
	if err := watched(ctx, client, selector, created.GetUID()); err != nil {
		return fail("watch", err)
	}
	return nil
}

// listed returns an error unless the list contains only that object.
func listed[T metav1.Object, L runtime.Object](ctx context.Context, client verbs[T, L], options metav1.ListOptions, name string) error {
	list, err := client.List(ctx, options)
	if err != nil {
		return err
	}
	items, err := meta.ExtractList(list)
	if err != nil {
		return err
	}
	if len(items) != 1 {
		return fmt.Errorf("%d items, 1 is expected", len(items))
	}
	item, err := meta.Accessor(items[0])
	if err != nil {
		return err
	}
	if item.GetName() != name {
		return fmt.Errorf("the item is %s", item.GetName())
	}
	return nil
}

// watched replays the object's events from before its creation.
func watched[T metav1.Object, L runtime.Object](ctx context.Context, client verbs[T, L], options metav1.ListOptions, uid types.UID) error {
	events, err := client.Watch(ctx, options)
	if err != nil {
		return err
	}
	defer events.Stop()
	var seen []watch.EventType
	for {
		select {
		case event, open := <-events.ResultChan():
			if !open {
				return fmt.Errorf("the watch ended after %v", seen)
			}
			object, err := meta.Accessor(event.Object)
			if err != nil {
				return fmt.Errorf("event %s carries %v: %w", event.Type, event.Object, err)
			}
			if object.GetUID() != uid {
				return fmt.Errorf("event %s of an object with another uid: %v", event.Type, object)
			}
			if len(seen) == 0 && event.Type != watch.Added {
				return fmt.Errorf("the first event is %s", event.Type)
			}
			if len(seen) > 0 && event.Type == watch.Added {
				return fmt.Errorf("added again, after %v", seen)
			}
			seen = append(seen, event.Type)
			if event.Type == watch.Deleted {
				// There are an update and three patches between creation and deletion.
				if len(seen) < 6 {
					return fmt.Errorf("there were only %v", seen)
				}
				return nil
			}
		case <-ctx.Done():
			return fmt.Errorf("%w, after %v", ctx.Err(), seen)
		}
	}
}

// subresources tests status and scale, the typed subresources that controllers use.
func subresources(ctx context.Context, t *target) error {
	nodes, name := t.client.CoreV1().Nodes(), t.namespace+"-status"
	created, err := nodes.Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("create node %s: %w", name, err)
	}
	defer nodes.Delete(context.WithoutCancel(ctx), name, metav1.DeleteOptions{})
	var updated *corev1.Node
	err = retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		current, err := nodes.Get(ctx, created.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		current.Labels = map[string]string{"not": "status"}
		current.Status.Capacity = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1500m")}
		updated, err = nodes.UpdateStatus(ctx, current, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		return fmt.Errorf("update the status of node %s: %w", name, err)
	}
	if cpu := updated.Status.Capacity.Cpu().MilliValue(); cpu != 1500 {
		return fmt.Errorf("update the status of node %s: the capacity is %dm", name, cpu)
	}

	deployments := t.client.AppsV1().Deployments(t.namespace)
	scaled := deployment().object
	scaled.Name = "scaled"
	if _, err := deployments.Create(ctx, scaled, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create deployment scaled: %w", err)
	}
	err = retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		scale, err := deployments.GetScale(ctx, "scaled", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if scale.Spec.Replicas != 2 || scale.Status.Selector != "app=typed" {
			return fmt.Errorf("it has %d replicas selected by %q", scale.Spec.Replicas, scale.Status.Selector)
		}
		scale.Spec.Replicas = 0
		scale, err = deployments.UpdateScale(ctx, "scaled", scale, metav1.UpdateOptions{})
		if err == nil && scale.Spec.Replicas != 0 {
			return fmt.Errorf("the answer has %d replicas", scale.Spec.Replicas)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("scale deployment scaled: %w", err)
	}
	got, err := deployments.Get(ctx, "scaled", metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("get deployment scaled: %w", err)
	}
	if got.Spec.Replicas == nil || *got.Spec.Replicas != 0 {
		return fmt.Errorf("deployment scaled has replicas %v after scaling to 0", got.Spec.Replicas)
	}
	return nil
}

// collections tests paged lists and the deletion of a collection.
func collections(ctx context.Context, t *target) error {
	client := t.client.CoreV1().ConfigMaps(t.namespace)
	labels := map[string]string{own: "collection"}
	for i := range 7 {
		object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "many-", Labels: labels}}
		created, err := client.Create(ctx, object, metav1.CreateOptions{})
		if err != nil {
			return fmt.Errorf("create configmap %d of a collection: %w", i, err)
		}
		if len(created.Name) != len("many-")+5 {
			return fmt.Errorf("the generated name is %q", created.Name)
		}
	}
	options, seen, pages := metav1.ListOptions{LabelSelector: own + "=collection", Limit: 3}, map[string]bool{}, 0
	for {
		page, err := client.List(ctx, options)
		if err != nil {
			return fmt.Errorf("list page %d of configmaps: %w", pages, err)
		}
		pages++
		for _, item := range page.Items {
			seen[item.Name] = true
		}
		if page.Continue == "" {
			break
		}
		options.Continue = page.Continue
	}
	if len(seen) != 7 || pages != 3 {
		return fmt.Errorf("%d configmaps in %d pages, 7 in 3 are expected", len(seen), pages)
	}
	err := client.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: own + "=collection"})
	if err != nil {
		return fmt.Errorf("delete a collection of configmaps: %w", err)
	}
	left, err := client.List(ctx, metav1.ListOptions{LabelSelector: own + "=collection"})
	if err != nil || len(left.Items) != 0 {
		return fmt.Errorf("a deleted collection has %d items, %w", len(left.Items), err)
	}
	return nil
}

// spokeProtobuf returns an error if a request had a different content type, because then the test is void.
func spokeProtobuf(requests []request) error {
	bodies := 0
	for _, request := range requests {
		switch request.method {
		case "POST", "PUT", "DELETE":
			if request.contentType != protobuf {
				return fmt.Errorf("the client did not send protobuf: %v", request)
			}
			bodies++
		case "GET":
			if strings.Contains(request.path, "/namespaces/") && !strings.HasPrefix(request.accept, protobuf) {
				return fmt.Errorf("the client did not ask for protobuf: %v, %s", request, request.accept)
			}
		}
	}
	if bodies < 60 {
		return fmt.Errorf("only %d requests had a body", bodies)
	}
	return nil
}

// --- the subjects

func configMap() subject[*corev1.ConfigMap] {
	return subject[*corev1.ConfigMap]{
		kind: "configmap",
		object: &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: "typed"},
			Data:       map[string]string{"key": "välue\n", "empty": ""},
			BinaryData: map[string][]byte{"binary": {0, 255, 1}},
		},
		stored: func(o *corev1.ConfigMap) error {
			if o.Data["key"] != "välue\n" || len(o.Data) != 2 || string(o.BinaryData["binary"]) != "\x00\xff\x01" {
				return fmt.Errorf("data %q, binary %q", o.Data, o.BinaryData)
			}
			return nil
		},
		change:  func(o *corev1.ConfigMap) { o.Data = map[string]string{"key": "other"} },
		changed: func(o *corev1.ConfigMap) bool { return o.Data["key"] == "other" && len(o.Data) == 1 },
	}
}

func secret() subject[*corev1.Secret] {
	return subject[*corev1.Secret]{
		kind: "secret",
		object: &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: "typed"},
			Data:       map[string][]byte{"kept": {0, 255}},
			StringData: map[string]string{"written": "plain"},
		},
		stored: func(o *corev1.Secret) error {
			if string(o.Data["kept"]) != "\x00\xff" || string(o.Data["written"]) != "plain" || o.Type != corev1.SecretTypeOpaque {
				return fmt.Errorf("data %q, type %q", o.Data, o.Type)
			}
			return nil
		},
		change:  func(o *corev1.Secret) { o.Data["kept"] = []byte("other") },
		changed: func(o *corev1.Secret) bool { return string(o.Data["kept"]) == "other" },
	}
}

func service() subject[*corev1.Service] {
	return subject[*corev1.Service]{
		kind: "service",
		object: &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: "typed"},
			Spec: corev1.ServiceSpec{
				Selector: map[string]string{"app": "typed"},
				Ports: []corev1.ServicePort{
					{Name: "http", Port: 80, TargetPort: intstr.FromString("web")},
					{Name: "dns", Port: 53, Protocol: corev1.ProtocolUDP},
				},
			},
		},
		stored: func(o *corev1.Service) error {
			if len(o.Spec.Ports) != 2 || o.Spec.Ports[0].TargetPort.StrVal != "web" || o.Spec.Ports[1].TargetPort.IntVal != 53 {
				return fmt.Errorf("ports %v", o.Spec.Ports)
			}
			if o.Spec.ClusterIP == "" || o.Spec.Type != corev1.ServiceTypeClusterIP || o.Spec.Ports[0].Protocol != corev1.ProtocolTCP {
				return fmt.Errorf("not defaulted: %v", o.Spec)
			}
			return nil
		},
		change:  func(o *corev1.Service) { o.Spec.Ports[0].Port = 8080 },
		changed: func(o *corev1.Service) bool { return o.Spec.Ports[0].Port == 8080 },
	}
}

// podSpec has fields of every wire type: numbers, booleans, pointers, maps, quantities, absent times, one-ofs.
func podSpec() corev1.PodSpec {
	yes, user := true, int64(1000)
	return corev1.PodSpec{
		// No scheduler has this name, so the pod is not changed during the test.
		SchedulerName: "clients",
		Containers: []corev1.Container{{
			Name:    "main",
			Image:   "registry.example/main:1",
			Command: []string{"sleep", "infinity"},
			Ports:   []corev1.ContainerPort{{Name: "web", ContainerPort: 8080}},
			Env: []corev1.EnvVar{
				{Name: "PLAIN", Value: "1"},
				{Name: "NODE", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "spec.nodeName"}}},
			},
			Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("0.5"), corev1.ResourceMemory: resource.MustParse("1024Mi")},
			},
			ReadinessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{
				HTTPGet: &corev1.HTTPGetAction{Path: "/ready", Port: intstr.FromInt32(8080)},
			}},
			SecurityContext: &corev1.SecurityContext{RunAsNonRoot: &yes, RunAsUser: &user},
			VolumeMounts:    []corev1.VolumeMount{{Name: "scratch", MountPath: "/scratch"}},
		}},
		Volumes: []corev1.Volume{{Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
	}
}

func pod() subject[*corev1.Pod] {
	return subject[*corev1.Pod]{
		kind:   "pod",
		object: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "typed"}, Spec: podSpec()},
		stored: func(o *corev1.Pod) error { return storedPod(o.Spec) },
		change: func(o *corev1.Pod) { o.Spec.Containers[0].Image = "registry.example/main:2" },
		changed: func(o *corev1.Pod) bool {
			return o.Spec.Containers[0].Image == "registry.example/main:2"
		},
	}
}

func storedPod(spec corev1.PodSpec) error {
	if len(spec.Containers) != 1 {
		return fmt.Errorf("%d containers", len(spec.Containers))
	}
	main := spec.Containers[0]
	if memory := main.Resources.Requests.Memory(); memory.String() != "1Gi" || main.Resources.Requests.Cpu().String() != "500m" {
		return fmt.Errorf("the requests are %v", main.Resources.Requests)
	}
	if main.ReadinessProbe == nil || main.ReadinessProbe.HTTPGet == nil || main.ReadinessProbe.HTTPGet.Port.IntVal != 8080 {
		return fmt.Errorf("the probe is %v", main.ReadinessProbe)
	}
	if main.ReadinessProbe.PeriodSeconds != 10 || main.ImagePullPolicy != corev1.PullIfNotPresent || spec.RestartPolicy != corev1.RestartPolicyAlways {
		return fmt.Errorf("not defaulted: %v", spec)
	}
	if main.SecurityContext == nil || main.SecurityContext.RunAsUser == nil || *main.SecurityContext.RunAsUser != 1000 {
		return fmt.Errorf("the security context is %v", main.SecurityContext)
	}
	if len(main.Env) != 2 || main.Env[1].ValueFrom == nil || main.Env[1].ValueFrom.FieldRef.APIVersion != "v1" {
		return fmt.Errorf("the environment is %v", main.Env)
	}
	return nil
}

func deployment() subject[*appsv1.Deployment] {
	labels, replicas := map[string]string{"app": "typed"}, int32(2)
	half := intstr.FromString("50%")
	return subject[*appsv1.Deployment]{
		kind: "deployment",
		object: &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Name: "typed"},
			Spec: appsv1.DeploymentSpec{
				Replicas: &replicas,
				Selector: &metav1.LabelSelector{MatchLabels: labels},
				Strategy: appsv1.DeploymentStrategy{RollingUpdate: &appsv1.RollingUpdateDeployment{MaxSurge: &half}},
				Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: podSpec()},
			},
		},
		stored: func(o *appsv1.Deployment) error {
			rolling := o.Spec.Strategy.RollingUpdate
			if rolling == nil || rolling.MaxSurge.StrVal != "50%" || rolling.MaxUnavailable.StrVal != "25%" || o.Generation == 0 {
				return fmt.Errorf("generation %d, strategy %v", o.Generation, o.Spec.Strategy)
			}
			return storedPod(o.Spec.Template.Spec)
		},
		change:  func(o *appsv1.Deployment) { o.Spec.MinReadySeconds = 3 },
		changed: func(o *appsv1.Deployment) bool { return o.Spec.MinReadySeconds == 3 && o.Generation > 1 },
	}
}

func namespace(name string) subject[*corev1.Namespace] {
	return subject[*corev1.Namespace]{
		kind:   "namespace",
		object: &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}},
		stored: func(o *corev1.Namespace) error {
			if o.Status.Phase != corev1.NamespaceActive || o.Labels[corev1.LabelMetadataName] != name {
				return fmt.Errorf("phase %s, labels %v", o.Status.Phase, o.Labels)
			}
			return nil
		},
		change:  func(o *corev1.Namespace) { o.Labels["team"] = "a" },
		changed: func(o *corev1.Namespace) bool { return o.Labels["team"] == "a" },
	}
}

func node(name string) subject[*corev1.Node] {
	return subject[*corev1.Node]{
		kind:   "node",
		object: &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{PodCIDR: "10.77.0.0/24"}},
		stored: func(o *corev1.Node) error {
			if o.Spec.PodCIDR != "10.77.0.0/24" {
				return fmt.Errorf("the address range is %q", o.Spec.PodCIDR)
			}
			return nil
		},
		change:  func(o *corev1.Node) { o.Spec.Unschedulable = true },
		changed: func(o *corev1.Node) bool { return o.Spec.Unschedulable },
	}
}

func event(namespace string) subject[*corev1.Event] {
	at := metav1.NewTime(time.Now().Truncate(time.Second))
	return subject[*corev1.Event]{
		kind: "event",
		object: &corev1.Event{
			ObjectMeta:     metav1.ObjectMeta{Name: "typed"},
			InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: namespace, Name: "typed", APIVersion: "v1"},
			Reason:         "Tried", Message: "as a controller would", Type: corev1.EventTypeNormal,
			Source:         corev1.EventSource{Component: "clients"},
			FirstTimestamp: at, LastTimestamp: at, Count: 1,
		},
		stored: func(o *corev1.Event) error {
			if o.Reason != "Tried" || !o.FirstTimestamp.Equal(&at) || o.InvolvedObject.Name != "typed" {
				return fmt.Errorf("reason %q, first seen %v, of %v", o.Reason, o.FirstTimestamp, o.InvolvedObject)
			}
			return nil
		},
		change:  func(o *corev1.Event) { o.Count = 2 },
		changed: func(o *corev1.Event) bool { return o.Count == 2 },
	}
}

func lease() subject[*coordinationv1.Lease] {
	holder, seconds := "one", int32(15)
	renewed := metav1.NewMicroTime(time.Now().Truncate(time.Microsecond))
	return subject[*coordinationv1.Lease]{
		kind: "lease",
		object: &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Name: "typed"},
			Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &seconds, RenewTime: &renewed},
		},
		stored: func(o *coordinationv1.Lease) error {
			if o.Spec.RenewTime == nil || !o.Spec.RenewTime.Equal(&renewed) {
				return fmt.Errorf("renewed at %v, sent as %v", o.Spec.RenewTime, renewed)
			}
			return nil
		},
		change:  func(o *coordinationv1.Lease) { other := "two"; o.Spec.HolderIdentity = &other },
		changed: func(o *coordinationv1.Lease) bool { return *o.Spec.HolderIdentity == "two" },
	}
}
