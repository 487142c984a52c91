// Package controller reconciles websites.
package controller

import (
	"context"
	"crypto/rand"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	examplev1 "windlass.dev/examples/explore/go/api/v1"
)

const (
	finalizer = "example.dev/route"
	// routes is the namespace of all routes. An owner reference cannot refer to another namespace, so the finalizer
	// deletes them.
	routes = "routes"
	image  = "nginx:1.29"
)

// WebsiteReconciler keeps a Deployment, a Secret and a route for each website.
type WebsiteReconciler struct {
	client.Client
	// Websites reads from the API server. A cache may still have a deleted website, whose route belongs to a newer one
	// with the same name.
	Websites client.Reader
	Scheme   *runtime.Scheme
}

// +kubebuilder:rbac:groups=example.dev,resources=websites,verbs=get;list;watch;update
// +kubebuilder:rbac:groups=example.dev,resources=websites/status,verbs=update
// +kubebuilder:rbac:groups=apps,resources=deployments,verbs=get;list;watch;create;update
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;list;watch;create;update
// +kubebuilder:rbac:groups="",resources=configmaps,verbs=create;patch;delete

// Reconcile makes the children of a website match its spec.
func (r *WebsiteReconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	website := &examplev1.Website{}
	if err := r.Websites.Get(ctx, request.NamespacedName, website); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !website.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, r.finalize(ctx, website)
	}
	// The finalizer comes first: a route without it could be left over.
	if controllerutil.AddFinalizer(website, finalizer) {
		if err := r.Update(ctx, website); err != nil {
			return ctrl.Result{}, err
		}
	}
	if err := r.deploy(ctx, website); err != nil {
		return ctrl.Result{}, fmt.Errorf("cannot write the Deployment: %w", err)
	}
	key, err := r.createKey(ctx, website)
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("cannot create the Secret: %w", err)
	}
	if err := r.publish(ctx, website); err != nil {
		return ctrl.Result{}, fmt.Errorf("cannot write the route: %w", err)
	}
	status := examplev1.WebsiteStatus{Replicas: *website.Spec.Replicas, Key: key}
	if website.Status == status {
		return ctrl.Result{}, nil
	}
	website.Status = status
	return ctrl.Result{}, r.Status().Update(ctx, website)
}

// finalize deletes the route, and then removes the finalizer.
func (r *WebsiteReconciler) finalize(ctx context.Context, website *examplev1.Website) error {
	if !controllerutil.ContainsFinalizer(website, finalizer) {
		return nil
	}
	route := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: routes, Name: routeName(website)}}
	if err := r.Delete(ctx, route); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("cannot delete the route: %w", err)
	}
	controllerutil.RemoveFinalizer(website, finalizer)
	return client.IgnoreNotFound(r.Update(ctx, website))
}

// deploy writes the Deployment.
func (r *WebsiteReconciler) deploy(ctx context.Context, website *examplev1.Website) error {
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: website.Namespace, Name: website.Name}}
	_, err := controllerutil.CreateOrUpdate(ctx, r.Client, deployment, func() error {
		labels := map[string]string{"app.kubernetes.io/instance": website.Name}
		spec := &deployment.Spec
		spec.Replicas = website.Spec.Replicas
		spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
		spec.Template.Labels = labels
		// Only these fields are set, so that the defaults of the API server are no difference.
		if len(spec.Template.Spec.Containers) == 0 {
			spec.Template.Spec.Containers = make([]corev1.Container, 1)
		}
		spec.Template.Spec.Containers[0].Name = "web"
		spec.Template.Spec.Containers[0].Image = image
		return controllerutil.SetControllerReference(website, deployment, r.Scheme)
	})
	return err
}

// createKey creates the Secret with a random key, unless it exists. Returns its name, which is unique for the website:
// a second attempt cannot create a second Secret.
func (r *WebsiteReconciler) createKey(ctx context.Context, website *examplev1.Website) (string, error) {
	name := fmt.Sprintf("%s-key-%.8s", website.Name, website.UID)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: website.Namespace, Name: name}}
	_, err := controllerutil.CreateOrUpdate(ctx, r.Client, secret, func() error {
		if len(secret.Data) == 0 {
			secret.Data = map[string][]byte{"key": []byte(rand.Text())}
		}
		return controllerutil.SetControllerReference(website, secret, r.Scheme)
	})
	return name, err
}

// publish writes the route.
func (r *WebsiteReconciler) publish(ctx context.Context, website *examplev1.Website) error {
	route := corev1ac.ConfigMap(routeName(website), routes).WithData(map[string]string{
		"host":    website.Spec.Host,
		"backend": website.Namespace + "/" + website.Name,
	})
	return r.Apply(ctx, route, client.FieldOwner("website-operator"), client.ForceOwnership)
}

func routeName(website *examplev1.Website) string {
	return website.Namespace + "." + website.Name
}

// SetupWithManager registers the controller.
func (r *WebsiteReconciler) SetupWithManager(manager ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(manager).
		For(&examplev1.Website{}).
		Owns(&appsv1.Deployment{}).
		Owns(&corev1.Secret{}).
		Complete(r)
}
