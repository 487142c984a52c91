// Command envtest is the test of a small operator, written with unmodified controller-runtime and its envtest. It starts the
// etcd, kube-apiserver and kubectl in KUBEBUILDER_ASSETS, and fails if they behave differently from the real ones.
//
//	KUBEBUILDER_ASSETS=DIR envtest
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// patience is the timeout for conditions.
const patience = 30 * time.Second

// part is a part of the test.
type part struct {
	name string
	run  func(context.Context, *bench) error
}

var parts = []part{
	{"the operator reconciles, as the leader", reconciles},
	{"webhooks default and deny", admits},
	{"a user is who the certificate says", users},
	{"roles decide what a user may", roles},
	{"service accounts have tokens", tokens},
	{"kubectl works", kubectl},
}

// bench is the shared state of the parts.
type bench struct {
	environment *envtest.Environment
	config      *rest.Config
	client      client.Client
}

func main() {
	ctrl.SetLogger(logr.Discard())
	if err := run(); err != nil {
		fmt.Printf("FAILED %v\n", err)
		os.Exit(1)
	}
}

func run() (err error) {
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		return err
	}
	scheme.AddKnownTypes(group, &Website{}, &WebsiteList{})
	metav1.AddToGroupVersion(scheme, group)

	environment := &envtest.Environment{
		Scheme:                scheme,
		CRDs:                  []*apiextensionsv1.CustomResourceDefinition{definition()},
		WebhookInstallOptions: hooks(),
	}
	started := time.Now()
	config, err := environment.Start()
	if err != nil {
		return fmt.Errorf("starting: %w", errors.Join(err, environment.Stop()))
	}
	fmt.Printf("started in %d ms\n", time.Since(started).Milliseconds())
	defer func() {
		stopping := time.Now()
		if stopped := stopped(environment); stopped != nil {
			err = errors.Join(err, stopped)
			return
		}
		fmt.Printf("stopped in %d ms\n", time.Since(stopping).Milliseconds())
	}()

	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	manager, err := operator(config, scheme, environment.WebhookInstallOptions)
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- manager.Start(ctx) }()
	defer func() {
		cancel()
		if ended := <-ended; ended != nil {
			err = errors.Join(err, fmt.Errorf("the manager: %w", ended))
		}
	}()

	direct, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	if err := eventually(ctx, "webhooks that are served", func(ctx context.Context) error {
		return manager.GetWebhookServer().StartedChecker()(nil)
	}); err != nil {
		return err
	}
	for _, part := range parts {
		began := time.Now()
		if err := part.run(ctx, &bench{environment, config, direct}); err != nil {
			return fmt.Errorf("%s: %w", part.name, err)
		}
		fmt.Printf("ok %s (%d ms)\n", part.name, time.Since(began).Milliseconds())
	}
	return nil
}

// stopped stops the environment, and checks that it has stopped.
func stopped(environment *envtest.Environment) error {
	secure := environment.ControlPlane.GetAPIServer().SecureServing.ListenAddr
	address := net.JoinHostPort(secure.Address, secure.Port)
	if err := environment.Stop(); err != nil {
		return fmt.Errorf("stopping: %w", err)
	}
	if connection, err := net.Dial("tcp", address); err == nil {
		return errors.Join(errors.New("stopping: the API server still listens"), connection.Close())
	}
	return nil
}

func eventually(ctx context.Context, what string, attempt func(context.Context) error) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		last = attempt(ctx)
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("waiting for %s: %w", what, errors.Join(err, last))
	}
	return nil
}

func website(name string, replicas int32) *Website {
	return &Website{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name},
		Spec:       WebsiteSpec{Image: "nginx", Replicas: replicas},
	}
}

func reconciles(ctx context.Context, b *bench) error {
	site := website("blog", 3)
	if err := b.client.Create(ctx, site); err != nil {
		return fmt.Errorf("creating a website: %w", err)
	}
	key := client.ObjectKeyFromObject(site)
	holds := func(replicas string) func(context.Context) error {
		return func(ctx context.Context) error {
			config := &corev1.ConfigMap{}
			if err := b.client.Get(ctx, key, config); err != nil {
				return err
			}
			if err := b.client.Get(ctx, key, site); err != nil {
				return err
			}
			if config.Data["replicas"] != replicas || !metav1.IsControlledBy(config, site) || site.Status.ObservedGeneration != site.Generation {
				return fmt.Errorf("it is %v of %v; the status is %+v of generation %d", config.Data, config.OwnerReferences, site.Status, site.Generation)
			}
			return nil
		}
	}
	if err := eventually(ctx, "the website's ConfigMap", holds("3")); err != nil {
		return err
	}
	patch := client.MergeFrom(site.DeepCopyObject().(client.Object))
	site.Spec.Replicas = 4
	if err := b.client.Patch(ctx, site, patch); err != nil {
		return fmt.Errorf("patching a website: %w", err)
	}
	if err := eventually(ctx, "the changed ConfigMap", holds("4")); err != nil {
		return err
	}
	lease := &coordinationv1.Lease{}
	if err := b.client.Get(ctx, client.ObjectKey{Namespace: metav1.NamespaceDefault, Name: election}, lease); err != nil {
		return fmt.Errorf("reading the lease: %w", err)
	}
	if lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "" {
		return errors.New("nobody holds the lease")
	}
	return nil
}

func admits(ctx context.Context, b *bench) error {
	site := website("defaulted", 0)
	if err := b.client.Create(ctx, site); err != nil {
		return fmt.Errorf("creating a website: %w", err)
	}
	if site.Spec.Replicas != usual {
		return fmt.Errorf("the website has %d replicas, not those of the webhook", site.Spec.Replicas)
	}
	err := b.client.Create(ctx, website("denied", most+1))
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "too many replicas") {
		return fmt.Errorf("the website that is to be denied: %v", err)
	}
	err = b.client.Create(ctx, &Website{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "x", Labels: map[string]string{"-": ""}}})
	if !apierrors.IsInvalid(err) {
		return fmt.Errorf("the website with a label that cannot be: %v", err)
	}
	return nil
}

func users(ctx context.Context, b *bench) error {
	user, err := b.environment.AddUser(envtest.User{Name: "alice", Groups: []string{"developers", "system:masters"}}, b.config)
	if err != nil {
		return fmt.Errorf("adding a user: %w", err)
	}
	asUser, err := client.New(user.Config(), client.Options{})
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	review := &authenticationv1.SelfSubjectReview{}
	if err := asUser.Create(ctx, review); err != nil {
		return fmt.Errorf("asking who I am: %w", err)
	}
	found := review.Status.UserInfo
	if groups := strings.Join(found.Groups, " "); found.Username != "alice" || groups != "developers system:masters system:authenticated" {
		return fmt.Errorf("I am %s of %s", found.Username, groups)
	}
	if credential := found.Extra["authentication.kubernetes.io/credential-id"]; len(credential) != 1 || !strings.HasPrefix(credential[0], "X509SHA256=") {
		return fmt.Errorf("the certificate is not told: %v", found.Extra)
	}
	// A certificate of another CA is rejected.
	stranger := rest.CopyConfig(user.Config())
	directory := b.environment.WebhookInstallOptions.LocalServingCertDir
	for file, data := range map[string]*[]byte{"tls.crt": &stranger.CertData, "tls.key": &stranger.KeyData} {
		if *data, err = os.ReadFile(filepath.Join(directory, file)); err != nil {
			return err
		}
	}
	asStranger, err := client.New(stranger, client.Options{Mapper: asUser.RESTMapper()})
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	if err := asStranger.List(ctx, &corev1.PodList{}); !apierrors.IsUnauthorized(err) {
		return fmt.Errorf("a stranger is let in, or sent away otherwise: %v", err)
	}
	return nil
}

func roles(ctx context.Context, b *bench) error {
	user, err := b.environment.AddUser(envtest.User{Name: "bob", Groups: []string{"developers"}}, b.config)
	if err != nil {
		return fmt.Errorf("adding a user: %w", err)
	}
	asUser, err := client.New(user.Config(), client.Options{Mapper: b.client.RESTMapper()})
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	inDefault := client.InNamespace(metav1.NamespaceDefault)
	if err := asUser.List(ctx, &corev1.PodList{}, inDefault); !apierrors.IsForbidden(err) {
		return fmt.Errorf("pods are shown to somebody without a role: %v", err)
	}
	name := metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "readers"}
	role := &rbacv1.Role{ObjectMeta: name, Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"list"}}}}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: name,
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: "developers"}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name.Name},
	}
	for _, object := range []client.Object{role, binding} {
		if err := b.client.Create(ctx, object); err != nil {
			return fmt.Errorf("creating a role: %w", err)
		}
	}
	if err := eventually(ctx, "the role", func(ctx context.Context) error { return asUser.List(ctx, &corev1.PodList{}, inDefault) }); err != nil {
		return err
	}
	if err := asUser.List(ctx, &corev1.PodList{}); !apierrors.IsForbidden(err) {
		return fmt.Errorf("pods of all namespaces are shown: %v", err)
	}
	return nil
}

func tokens(ctx context.Context, b *bench) error {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "robot"}}
	if err := b.client.Create(ctx, account); err != nil {
		return fmt.Errorf("creating an account: %w", err)
	}
	request := &authenticationv1.TokenRequest{}
	if err := b.client.SubResource("token").Create(ctx, account, request); err != nil {
		return fmt.Errorf("asking for a token: %w", err)
	}
	review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: request.Status.Token}}
	if err := b.client.Create(ctx, review); err != nil {
		return fmt.Errorf("asking whose token it is: %w", err)
	}
	if !review.Status.Authenticated || review.Status.User.Username != "system:serviceaccount:default:robot" {
		return fmt.Errorf("the token is %+v", review.Status)
	}
	config := rest.AnonymousClientConfig(b.config)
	config.BearerToken = request.Status.Token
	asRobot, err := client.New(config, client.Options{Mapper: b.client.RESTMapper()})
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	who := &authenticationv1.SelfSubjectReview{}
	if err := asRobot.Create(ctx, who); err != nil {
		return fmt.Errorf("asking who I am: %w", err)
	}
	if who.Status.UserInfo.Username != review.Status.User.Username {
		return fmt.Errorf("I am %s", who.Status.UserInfo.Username)
	}
	return nil
}

func kubectl(_ context.Context, b *bench) error {
	user, err := b.environment.AddUser(envtest.User{Name: "kubectl", Groups: []string{"system:masters"}}, b.config)
	if err != nil {
		return fmt.Errorf("adding a user: %w", err)
	}
	kubectl, err := user.Kubectl()
	if err != nil {
		return err
	}
	output, errors, err := kubectl.Run("get", "websites", "-o", "name")
	if err != nil {
		told, _ := io.ReadAll(errors)
		return fmt.Errorf("%w: %s", err, told)
	}
	names, err := io.ReadAll(output)
	if err != nil {
		return err
	}
	if want := "website.shop.example.com/blog\nwebsite.shop.example.com/defaulted\n"; string(names) != want {
		return fmt.Errorf("it says %q", names)
	}
	return nil
}
