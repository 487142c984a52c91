// The manager of the website operator.
//
// The environment variable BUG=stale-cache plants a bug: see the README of the examples.
package main

import (
	"flag"
	"os"

	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	examplev1 "windlass.dev/examples/explore/go/api/v1"
	"windlass.dev/examples/explore/go/internal/controller"
)

var (
	scheme = runtime.NewScheme()
	log    = ctrl.Log.WithName("setup")
)

func init() {
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(examplev1.AddToScheme(scheme))
}

func main() {
	metrics := flag.String("metrics-bind-address", "0", "The address of the metrics endpoint; 0 disables it.")
	probes := flag.String("health-probe-bind-address", ":8081", "The address of the probe endpoint; 0 disables it.")
	elect := flag.Bool("leader-elect", false, "Elect a leader, so that only one manager is active.")
	options := zap.Options{Development: true}
	options.BindFlags(flag.CommandLine)
	flag.Parse()
	ctrl.SetLogger(zap.New(zap.UseFlagOptions(&options)))

	if err := run(*metrics, *probes, *elect); err != nil {
		log.Error(err, "the manager failed")
		os.Exit(1)
	}
}

func run(metrics, probes string, elect bool) error {
	manager, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{
		Scheme:                 scheme,
		Metrics:                metricsserver.Options{BindAddress: metrics},
		HealthProbeBindAddress: probes,
		LeaderElection:         elect,
		LeaderElectionID:       "websites.example.dev",
	})
	if err != nil {
		return err
	}
	reconciler := &controller.WebsiteReconciler{
		Client:   manager.GetClient(),
		Websites: manager.GetAPIReader(),
		Scheme:   manager.GetScheme(),
	}
	if os.Getenv("BUG") == "stale-cache" {
		reconciler.Websites = manager.GetClient()
	}
	if err := reconciler.SetupWithManager(manager); err != nil {
		return err
	}
	// +kubebuilder:scaffold:builder
	if err := manager.AddHealthzCheck("healthz", healthz.Ping); err != nil {
		return err
	}
	if err := manager.AddReadyzCheck("readyz", healthz.Ping); err != nil {
		return err
	}
	return manager.Start(ctrl.SetupSignalHandler())
}
