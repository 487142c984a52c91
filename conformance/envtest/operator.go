package main

import (
	"context"
	"errors"
	"fmt"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// Paths of the webhooks: controller-runtime's defaults.
const (
	mutatePath   = "/mutate-shop-example-com-v1-website"
	validatePath = "/validate-shop-example-com-v1-website"
)

// election is the name of the leader election lease.
const election = "website-operator"

// reconciler creates a ConfigMap with the same name for each website.
type reconciler struct{ client.Client }

func (r *reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	site := &Website{}
	if err := r.Get(ctx, request.NamespacedName, site); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: site.Namespace, Name: site.Name}}
	_, err := controllerutil.CreateOrUpdate(ctx, r.Client, config, func() error {
		config.Data = map[string]string{"image": site.Spec.Image, "replicas": fmt.Sprint(site.Spec.Replicas)}
		return controllerutil.SetControllerReference(site, config, r.Scheme())
	})
	if err != nil {
		return ctrl.Result{}, err
	}
	if site.Status.ObservedGeneration == site.Generation {
		return ctrl.Result{}, nil
	}
	site.Status.ObservedGeneration = site.Generation
	return ctrl.Result{}, r.Status().Update(ctx, site)
}

// rules are the rules of the webhooks: a website has replicas, up to a maximum.
type rules struct{}

const (
	usual = 2
	most  = 10
)

func (rules) Default(_ context.Context, site *Website) error {
	if site.Spec.Replicas == 0 {
		site.Spec.Replicas = usual
	}
	return nil
}

func (rules) ValidateCreate(_ context.Context, site *Website) (admission.Warnings, error) {
	if site.Spec.Replicas > most {
		return nil, errors.New("too many replicas")
	}
	return nil, nil
}

func (r rules) ValidateUpdate(ctx context.Context, _, site *Website) (admission.Warnings, error) {
	return r.ValidateCreate(ctx, site)
}

func (rules) ValidateDelete(context.Context, *Website) (admission.Warnings, error) { return nil, nil }

// hooks are the webhook configurations in the format of a project: for a service, which envtest replaces.
func hooks() envtest.WebhookInstallOptions {
	fail, none := admissionregistrationv1.Fail, admissionregistrationv1.SideEffectClassNone
	config := func(path string) admissionregistrationv1.WebhookClientConfig {
		return admissionregistrationv1.WebhookClientConfig{
			Service: &admissionregistrationv1.ServiceReference{Namespace: "system", Name: "webhooks", Path: &path},
		}
	}
	matching := []admissionregistrationv1.RuleWithOperations{{
		Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update},
		Rule:       admissionregistrationv1.Rule{APIGroups: []string{group.Group}, APIVersions: []string{group.Version}, Resources: []string{"websites"}},
	}}
	return envtest.WebhookInstallOptions{
		MutatingWebhooks: []*admissionregistrationv1.MutatingWebhookConfiguration{{
			ObjectMeta: metav1.ObjectMeta{Name: "websites"},
			Webhooks: []admissionregistrationv1.MutatingWebhook{{
				Name: "default.shop.example.com", ClientConfig: config(mutatePath), Rules: matching,
				FailurePolicy: &fail, SideEffects: &none, AdmissionReviewVersions: []string{"v1"},
			}},
		}},
		ValidatingWebhooks: []*admissionregistrationv1.ValidatingWebhookConfiguration{{
			ObjectMeta: metav1.ObjectMeta{Name: "websites"},
			Webhooks: []admissionregistrationv1.ValidatingWebhook{{
				Name: "validate.shop.example.com", ClientConfig: config(validatePath), Rules: matching,
				FailurePolicy: &fail, SideEffects: &none, AdmissionReviewVersions: []string{"v1"},
			}},
		}},
	}
}

// operator returns the complete manager, as a main function creates it.
func operator(config *rest.Config, scheme *runtime.Scheme, served envtest.WebhookInstallOptions) (ctrl.Manager, error) {
	manager, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:                        scheme,
		Metrics:                       metricsserver.Options{BindAddress: "0"},
		LeaderElection:                true,
		LeaderElectionID:              election,
		LeaderElectionNamespace:       metav1.NamespaceDefault,
		LeaderElectionReleaseOnCancel: true,
		WebhookServer: webhook.NewServer(webhook.Options{
			Host: served.LocalServingHost, Port: served.LocalServingPort, CertDir: served.LocalServingCertDir,
		}),
	})
	if err != nil {
		return nil, fmt.Errorf("making a manager: %w", err)
	}
	reconciler := &reconciler{manager.GetClient()}
	if err := ctrl.NewControllerManagedBy(manager).For(&Website{}).Owns(&corev1.ConfigMap{}).Complete(reconciler); err != nil {
		return nil, fmt.Errorf("adding a controller: %w", err)
	}
	err = ctrl.NewWebhookManagedBy(manager, &Website{}).WithDefaulter(rules{}).WithValidator(rules{}).Complete()
	if err != nil {
		return nil, fmt.Errorf("adding webhooks: %w", err)
	}
	return manager, nil
}
