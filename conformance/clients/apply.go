package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	apps "k8s.io/client-go/applyconfigurations/apps/v1"
	core "k8s.io/client-go/applyconfigurations/core/v1"
	applymeta "k8s.io/client-go/applyconfigurations/meta/v1"
	"k8s.io/client-go/dynamic"
)

// by returns the options for an apply by this manager.
func by(manager string) metav1.ApplyOptions { return metav1.ApplyOptions{FieldManager: manager} }

func byForce(manager string) metav1.ApplyOptions {
	return metav1.ApplyOptions{FieldManager: manager, Force: true}
}

func apply(ctx context.Context, t *target) error {
	for _, part := range []struct {
		name string
		run  func(context.Context, *target) error
	}{
		{"ownership of a configmap", applyOwnership},
		{"lists of a deployment", applyLists},
		{"the status of a service", applyStatus},
		{"a custom resource", applyCustom},
	} {
		if err := part.run(ctx, t); err != nil {
			return fmt.Errorf("%s: %w", part.name, err)
		}
	}
	return nil
}

// applyOwnership tests a ConfigMap with two applying managers and an updating one.
func applyOwnership(ctx context.Context, t *target) error {
	client := t.client.CoreV1().ConfigMaps(t.namespace)
	mine := func() *core.ConfigMapApplyConfiguration {
		return core.ConfigMap("shared", t.namespace).WithLabels(map[string]string{"owner": "first"})
	}
	full := mine().WithData(map[string]string{"colour": "blue", "size": "large"})
	created, err := client.Apply(ctx, full, by("first"))
	if err != nil {
		return fmt.Errorf("the first apply: %w", err)
	}
	if err := owned(created, "first", metav1.ManagedFieldsOperationApply, `"f:colour":{}`, `"f:owner":{}`); err != nil {
		return err
	}
	again, err := client.Apply(ctx, full, by("first"))
	if err != nil {
		return fmt.Errorf("the same apply again: %w", err)
	}
	if again.ResourceVersion != created.ResourceVersion {
		return fmt.Errorf("the same apply again made version %s of %s", again.ResourceVersion, created.ResourceVersion)
	}

	other := core.ConfigMap("shared", t.namespace).WithData(map[string]string{"colour": "red", "shape": "round"})
	_, err = client.Apply(ctx, other, by("second"))
	if !apierrors.IsConflict(err) || !strings.Contains(err.Error(), `conflict with "first": .data.colour`) {
		return fmt.Errorf("another's apply: a conflict with the first is expected, not %v", err)
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil || len(status.Status().Details.Causes) != 1 ||
		status.Status().Details.Causes[0].Type != metav1.CauseTypeFieldManagerConflict ||
		status.Status().Details.Causes[0].Field != ".data.colour" {
		return fmt.Errorf("another's apply: the cause is %v", err)
	}
	forced, err := client.Apply(ctx, other, byForce("second"))
	if err != nil {
		return fmt.Errorf("another's apply by force: %w", err)
	}
	if forced.Data["colour"] != "red" || forced.Data["size"] != "large" || forced.Data["shape"] != "round" {
		return fmt.Errorf("another's apply by force: %v", forced.Data)
	}
	extracted, err := core.ExtractConfigMap(forced, "first")
	if err != nil {
		return fmt.Errorf("extracting what the first owns: %w", err)
	}
	if _, kept := extracted.Data["colour"]; kept || extracted.Data["size"] != "large" || extracted.Labels["owner"] != "first" {
		return fmt.Errorf("the first owns %v, %v after the other's force", extracted.Data, extracted.Labels)
	}

	// An omitted field is removed, unless another manager owns it, too.
	agreed := mine().WithData(map[string]string{"colour": "red"})
	shared, err := client.Apply(ctx, agreed, by("first"))
	if err != nil {
		return fmt.Errorf("applying what the other has: %w", err)
	}
	if _, kept := shared.Data["size"]; kept || shared.Data["colour"] != "red" {
		return fmt.Errorf("applying less leaves %v", shared.Data)
	}
	left, err := client.Apply(ctx, mine(), by("first"))
	if err != nil || left.Data["colour"] != "red" {
		return fmt.Errorf("giving up a shared field leaves %v, %w", left.Data, err)
	}

	// An update that changes a field takes its ownership.
	left.Data["shape"] = "square"
	updated, err := client.Update(ctx, left, metav1.UpdateOptions{FieldManager: "outsider"})
	if err != nil {
		return fmt.Errorf("an update between applies: %w", err)
	}
	if err := owned(updated, "outsider", metav1.ManagedFieldsOperationUpdate, `"f:shape":{}`); err != nil {
		return err
	}
	_, err = client.Apply(ctx, other, by("second"))
	if !apierrors.IsConflict(err) || !strings.Contains(err.Error(), `conflict with "outsider" using v1: .data.shape`) {
		return fmt.Errorf("applying over an update: a conflict with the outsider is expected, not %v", err)
	}
	return nil
}

// owned returns an error unless the manager's entry contains these parts.
func owned(object metav1.Object, manager string, operation metav1.ManagedFieldsOperationType, pieces ...string) error {
	for _, entry := range object.GetManagedFields() {
		if entry.Manager != manager || entry.Operation != operation {
			continue
		}
		for _, piece := range pieces {
			if entry.FieldsV1 == nil || !strings.Contains(string(entry.FieldsV1.Raw), piece) {
				return fmt.Errorf("%s of %s does not own %s: %s", operation, manager, piece, entry.FieldsV1)
			}
		}
		return nil
	}
	return fmt.Errorf("there is no %s of %s in %v", operation, manager, object.GetManagedFields())
}

// applyLists tests lists with merge keys: containers by name, ports by number and protocol, variables by name.
func applyLists(ctx context.Context, t *target) error {
	client := t.client.AppsV1().Deployments(t.namespace)
	labels := map[string]string{"app": "applied"}
	main := func(variables ...string) *core.ContainerApplyConfiguration {
		container := core.Container().WithName("main").WithImage("registry.example/main:1").
			WithPorts(core.ContainerPort().WithContainerPort(80))
		for _, name := range variables {
			container.WithEnv(core.EnvVar().WithName(name).WithValue("x"))
		}
		return container
	}
	deployment := func(containers ...*core.ContainerApplyConfiguration) *apps.DeploymentApplyConfiguration {
		template := core.PodTemplateSpec().WithLabels(labels).WithSpec(core.PodSpec().WithContainers(containers...))
		return apps.Deployment("applied", t.namespace).WithSpec(apps.DeploymentSpec().WithReplicas(0).
			WithSelector(applymeta.LabelSelector().WithMatchLabels(labels)).WithTemplate(template))
	}
	if _, err := client.Apply(ctx, deployment(main("A", "B")), by("owner")); err != nil {
		return fmt.Errorf("the first apply: %w", err)
	}
	side := core.Container().WithName("side").WithImage("registry.example/side:1")
	port := core.Container().WithName("main").WithPorts(core.ContainerPort().WithContainerPort(80).WithProtocol(corev1.ProtocolUDP))
	injected := apps.Deployment("applied", t.namespace).WithSpec(apps.DeploymentSpec().
		WithTemplate(core.PodTemplateSpec().WithSpec(core.PodSpec().WithContainers(side, port))))
	both, err := client.Apply(ctx, injected, by("injector"))
	if err != nil {
		return fmt.Errorf("the injector's apply: %w", err)
	}
	// The order of the applied list precedes the stored order.
	if err := merged(both, "side main", 2, 2); err != nil {
		return fmt.Errorf("the injector's apply: %w", err)
	}
	fewer, err := client.Apply(ctx, deployment(main("B")), by("owner"))
	if err != nil {
		return fmt.Errorf("applying fewer variables: %w", err)
	}
	if err := merged(fewer, "side main", 2, 1); err != nil {
		return fmt.Errorf("applying fewer variables: %w", err)
	}
	// Applying the extracted configuration changes nothing.
	extracted, err := apps.ExtractDeployment(fewer, "owner")
	if err != nil {
		return fmt.Errorf("extracting: %w", err)
	}
	if template := extracted.Spec.Template.Spec; len(template.Containers) != 1 || *template.Containers[0].Image != "registry.example/main:1" {
		return fmt.Errorf("the owner owns %v", template.Containers)
	}
	same, err := client.Apply(ctx, extracted, by("owner"))
	if err != nil {
		return fmt.Errorf("applying what was extracted: %w", err)
	}
	// Annotations by the deployment controller also increase the generation.
	if !equality.Semantic.DeepEqual(same.Spec, fewer.Spec) {
		return fmt.Errorf("applying what was extracted made %v of %v", same.Spec, fewer.Spec)
	}
	empty := apps.Deployment("applied", t.namespace)
	alone, err := client.Apply(ctx, empty, by("injector"))
	if err != nil {
		return fmt.Errorf("the injector leaves: %w", err)
	}
	if err := merged(alone, "main", 1, 1); err != nil {
		return fmt.Errorf("the injector leaves: %w", err)
	}
	return nil
}

// merged returns an error unless a deployment has those containers in that order, and its main container has these numbers of
// ports and variables.
func merged(deployment *appsv1.Deployment, names string, ports, variables int) error {
	containers := deployment.Spec.Template.Spec.Containers
	var found []string
	for _, container := range containers {
		found = append(found, container.Name)
		if container.Name == "main" && (len(container.Ports) != ports || len(container.Env) != variables) {
			return fmt.Errorf("main has ports %v and variables %v", container.Ports, container.Env)
		}
	}
	if strings.Join(found, " ") != names {
		return fmt.Errorf("the containers are %v, not %s", found, names)
	}
	return nil
}

// applyStatus tests the apply of a condition, an item of a list with the key `type`.
func applyStatus(ctx context.Context, t *target) error {
	client := t.client.CoreV1().Services(t.namespace)
	service := core.Service("applied", t.namespace).WithSpec(core.ServiceSpec().
		WithPorts(core.ServicePort().WithPort(80)).WithSelector(map[string]string{"app": "applied"}))
	created, err := client.Apply(ctx, service, by("owner"))
	if err != nil {
		return fmt.Errorf("apply: %w", err)
	}
	condition := applymeta.Condition().WithType("example.dev/Checked").WithStatus(metav1.ConditionTrue).
		WithReason("Tried").WithMessage("").WithLastTransitionTime(metav1.Now())
	status := core.Service("applied", t.namespace).WithStatus(core.ServiceStatus().WithConditions(condition))
	checked, err := client.ApplyStatus(ctx, status, by("checker"))
	if err != nil {
		return fmt.Errorf("apply status: %w", err)
	}
	if len(checked.Status.Conditions) != 1 || checked.Spec.ClusterIP != created.Spec.ClusterIP {
		return fmt.Errorf("apply status: %v", checked.Status)
	}
	extracted, err := core.ExtractServiceStatus(checked, "checker")
	if err != nil || extracted.Status == nil || len(extracted.Status.Conditions) != 1 {
		return fmt.Errorf("the checker owns %v, %w", extracted, err)
	}
	return nil
}

// applyCustom tests the same with a custom resource, whose schema defines the merge keys.
func applyCustom(ctx context.Context, t *target) error {
	boats, err := build(ctx, t)
	if err != nil {
		return err
	}
	defer boats.sink(ctx)
	resource, err := boats.resource(ctx, t)
	if err != nil {
		return err
	}
	dynamicClient, err := dynamic.NewForConfig(t.config)
	if err != nil {
		return fmt.Errorf("making a dynamic client: %w", err)
	}
	client := dynamicClient.Resource(resource).Namespace(t.namespace)
	with := func(berths ...any) *unstructured.Unstructured {
		boat := boats.boat("blue", "kiel")
		boat.Object["spec"].(map[string]any)["berths"] = berths
		return boat
	}
	berth := func(name string, length int64) any { return map[string]any{"name": name, "length": length} }
	if _, err := client.Apply(ctx, "blue", with(berth("a", 2)), by("first")); err != nil {
		return fmt.Errorf("the first apply: %w", err)
	}
	both, err := client.Apply(ctx, "blue", with(berth("b", 3)), by("second"))
	if err != nil {
		return fmt.Errorf("the second's apply: %w", err)
	}
	if berths, _, _ := unstructured.NestedSlice(both.Object, "spec", "berths"); len(berths) != 2 {
		return fmt.Errorf("merged berths: %v", berths)
	}
	_, err = client.Apply(ctx, "blue", with(berth("b", 3), berth("a", 9)), by("second"))
	if !apierrors.IsConflict(err) || !strings.Contains(err.Error(), `.spec.berths[name="a"].length`) {
		return fmt.Errorf("the second changes the first's: a conflict is expected, not %v", err)
	}
	status := boats.boat("blue", "kiel")
	delete(status.Object, "spec")
	status.Object["status"] = map[string]any{"afloat": true}
	floating, err := client.ApplyStatus(ctx, "blue", status, by("sea"))
	if err != nil {
		return fmt.Errorf("apply status: %w", err)
	}
	if afloat, _, _ := unstructured.NestedBool(floating.Object, "status", "afloat"); !afloat {
		return fmt.Errorf("apply status: %v", floating.Object["status"])
	}
	return nil
}
